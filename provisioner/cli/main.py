"""The command `tenantry`: one file per noun, joined here; errors become exit codes here and nowhere else.

Exit codes: 0 done · 1 the request is at fault, usage errors included · 2 our fault · 3 and 4 what a preview found, 3
also that a posture differs · 5 timed out or no capacity.
Commands import what they need when they run, so that `--help` and completion stay quick.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
import typer.core
import typer.main

from provisioner.cli import lint, plan, preview, process, usage
from provisioner.cli.output import print_error, say
from provisioner.domain.errors import InvariantError, RetryableError, TenantryError

EXIT_DONE = 0
EXIT_REQUEST = 1
EXIT_OURS = 2
EXIT_TIMEOUT = 5
EXIT_INTERRUPTED = 130

_MACHINE_HINTS = {
    errno.ENOSPC: "free some space and start again; nothing that was answered for is lost",
    errno.EDQUOT: "free some of your quota and start again; nothing that was answered for is lost",
    errno.EROFS: "choose a state folder that can be written: TENANTRY_STATE",
    errno.EACCES: "give yourself access to it, or choose another state folder: TENANTRY_STATE",
    errno.EADDRINUSE: "stop what listens there, or choose another port",
}
"""What the machine refuses and what to do about it."""

_COLLECT_AFTER = 20_000
"""New objects between two collections of garbage. A start makes a hundred thousand that stay; to look for garbage after
every 700, Python's own number, takes a tenth of its time."""

UsageError: type[Exception] = typer.BadParameter.__bases__[0]
"""What the command line raises for a line it cannot read; of its kinds typer names only this one publicly."""

app = typer.Typer(
    name="tenantry",
    epilog="Start with `tenantry demo`: a live endpoint on this machine, no cluster and no GPU needed.",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help costs a quarter of the time and reads the same in a pipe; also below
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

NOUNS: Mapping[str, str] = {
    "tier": "Tiers: isolation, limits and promise sold.",
    "model": "Models: serving defaults (master) and provenance (card).",
    "tenant": "Tenants: customers of the provider.",
    "team": "Teams: parts of a tenant.",
    "project": "Projects: what a tenant may use of a tier.",
    "endpoint": "Endpoints: what customers own and call.",
    "operation": "Operations: durable changes and their steps.",
    "fallback": "External fallback: where requests go while an endpoint has no healthy replica.",
    "key": "API keys: of tenants, and of the provider's own people and programs.",
    "audit": "The audit log: who changed what.",
    "orphan": "Orphans: what is left of endpoints that are gone.",
}
"""Each has its commands in the module of its name."""


class Noun(typer.core.TyperGroup):
    """The commands of a noun, imported when they are asked for: `--help` needs none of them."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names."""
        return [*self._loaded().list_commands(ctx)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """One of them, or None."""
        return self._loaded().get_command(ctx, cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The one that the arguments name; what is mistyped is told with what may have been meant."""
        return self._loaded().resolve_command(ctx, args)

    def _loaded(self) -> Any:
        whole = typer.Typer(rich_markup_mode=None)
        whole.add_typer(import_module(f"provisioner.cli.{self.name}").app)
        return typer.main.get_group(whole).commands[self.name or ""]


process.register(app)
plan.register(app)
lint.register(app)
preview.register(app)
for noun, told in NOUNS.items():
    app.add_typer(typer.Typer(name=noun, help=told, cls=Noun, no_args_is_help=True))
usage.register(app)


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"tenantry {version('tenantry')}")
        raise typer.Exit


@app.callback()
def root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Managed-inference endpoints on vCluster tenant clusters."""


def run() -> None:
    """The entry point of the console script."""
    os.umask(0o077)  # databases, logs and certificates are for our own user, whoever may enter their folder
    gc.set_threshold(_COLLECT_AFTER)
    status = main(sys.argv[1:])
    gc.freeze()  # else the interpreter, before it ends, looks through all of it for garbage once more
    sys.exit(status)


def main(arguments: Sequence[str]) -> int:
    """Run one command line and answer its exit code."""
    try:
        status = app(args=list(arguments), prog_name="tenantry", standalone_mode=False)
    except UsageError as error:
        say(_usage_text(error))
        return EXIT_REQUEST
    except (typer.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except TenantryError as error:
        print_error(error)
        return exit_code(error)
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_DONE
    except Exception as error:  # the outermost line: whatever gets here is our bug, or the machine's trouble
        if isinstance(error, OSError) and error.errno in _MACHINE_HINTS:
            say(f"error: running `tenantry`: {error.strerror}{f': {error.filename}' if error.filename else ''}")
            say(f"hint: {_MACHINE_HINTS[error.errno]}")
            return EXIT_REQUEST
        traceback.print_exc()
        say(f"error: running `tenantry`: {type(error).__name__}: {error}")
        say("hint: this is a bug; please report it with the lines above")
        return EXIT_OURS
    return status if isinstance(status, int) else EXIT_DONE


def _usage_text(error: Any) -> str:
    """The help itself when nothing was asked for, else what is wrong and where the usage stands."""
    message: str = error.format_message()
    if message.startswith("Usage:"):
        return message
    path = error.ctx.command_path if error.ctx else "tenantry"
    return f"error: {message}\nhint: `{path} --help` shows the usage"


def exit_code(error: TenantryError) -> int:
    """The exit code that says what the caller should do."""
    if isinstance(error, RetryableError):
        return EXIT_TIMEOUT
    if isinstance(error, InvariantError):
        return EXIT_OURS
    return EXIT_REQUEST
