"""Writes docs/reference from the code and the pack: commands, settings, stacks, tiers, models, runtimes, policies.

`make golden` runs it; `make check` runs it with `--check`, which writes nothing and ends with 1 on a difference.
"""

from __future__ import annotations

import sys
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer.core
import typer.main
from metrics_page import metrics_page
from pack_pages import components_page, site_page, tiers_page
from pydantic import BaseModel
from rule_pages import rule_pages
from runtime_pages import runtimes_page
from stack_page import stacks_page

from provisioner.admission.form import PlanForm, RequestForm
from provisioner.admission.policy import load_policies
from provisioner.catalog.loader import load_catalog
from provisioner.catalog.pack import pack_root
from provisioner.cli.main import EXIT_DONE, EXIT_INTERRUPTED, EXIT_OURS, EXIT_REQUEST, EXIT_TIMEOUT, app
from provisioner.gateway.standalone.lane import LANES
from provisioner.preview.verdict import DISRUPTIVE, FINDINGS
from provisioner.settings import VARIABLES, gateway
from provisioner.settings import lanes as lanes_settings

FOLDER = Path(__file__).resolve().parents[1] / "docs"
WIDTH = 100
EXIT_CODES = {
    EXIT_DONE: "done; of `preview`: nothing is disturbed",
    EXIT_REQUEST: "the request, or what it is about, is at fault; of `preview`: something could not be previewed",
    EXIT_OURS: "our fault: a bug",
    DISRUPTIVE: "of `preview`: something disturbs endpoints, pods restart or worse; of `audit posture`: it differs",
    FINDINGS: "of `preview` only: new errors of policies or the linter",
    EXIT_TIMEOUT: "timed out, no capacity, or not reached: worth another try",
    EXIT_INTERRUPTED: "interrupted",
}


def main() -> int:
    """Write the pages, or compare them; the exit code."""
    pages = {
        "reference/commands.md": commands_page(),
        "reference/settings.md": settings_page(),
        "reference/request.md": request_page(),
        "reference/site.md": site_page(),
        "reference/tiers.md": tiers_page(),
        "reference/components.md": components_page(),
        "reference/models.md": models_page(),
        "reference/runtimes.md": runtimes_page(),
        "reference/policies.md": policies_page(),
        "reference/stacks.md": stacks_page(),
        "reference/metrics.md": metrics_page(),
        **{f"rules/{name}": text for name, text in rule_pages().items()},
    }
    orphans = [file for file in (FOLDER / "rules").glob("*.md") if f"rules/{file.name}" not in pages]
    if "--check" not in sys.argv:
        for name, text in pages.items():
            (FOLDER / name).parent.mkdir(exist_ok=True)
            (FOLDER / name).write_text(text)
        for file in orphans:
            file.unlink()
        return 0
    stale = [name for name, text in pages.items() if _read(FOLDER / name) != text]
    for name in [*stale, *(f"rules/{file.name}" for file in orphans)]:
        print(f"docs/{name}: differs from the code; run `make golden`")
    return 1 if stale or orphans else 0


def commands_page() -> str:
    """Every command's help text."""
    root = typer.main.get_command(app)
    context = typer.Context(root, info_name="tenantry", max_content_width=WIDTH, terminal_width=WIDTH)
    lines = [
        "# Commands",
        "",
        "Data goes to standard output, talk to standard error.",
        "",
        "| exit code | meaning |",
        "|---|---|",
        *(f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items()),
        "",
    ]
    for path, text in _helps(root, context):
        lines += [f"## {path}", "", "```text", text, "```", ""]
    return "\n".join(lines)


def settings_page() -> str:
    """Every environment variable."""
    lanes = ", ".join(lane.upper() for lane in LANES)
    parts: dict[str, tuple[str, Mapping[str, str]]] = {
        "Server and command line": ("Files and database default to the state folder.", VARIABLES),
        "Gateway": (
            "Durations are written as Go writes them: `500ms`, `10s`, `1m30s`. With `TENANTRY_CONTROL_PLANE` the key, "
            "the certificates and the state folder of the table above count too.",
            gateway.VARIABLES,
        ),
        "Gateway that stands alone": (
            f"Read where `BACKEND_GENERAL` is set; `<LANE>` is one of {lanes}. "
            "[How to run one](../how-to/run-a-gateway-alone.md).",
            lanes_settings.VARIABLES,
        ),
    }
    head = "Read once from the environment when a process starts. An empty variable counts as not set."
    lines = ["# Settings", "", head, ""]
    for title, (intro, variables) in parts.items():
        rows = [(f"`{name}`", meaning) for name, meaning in variables.items()]
        lines += [f"## {title}", "", intro, "", *_table(("variable", "meaning"), rows), ""]
    return "\n".join(lines)


def request_page() -> str:
    """Every field of a request, and what a plan may be told to assume."""
    rows = [*_fields(RequestForm, ""), *_fields(PlanForm, "", without=RequestForm)]
    intro = (
        "REQUEST.yaml of `tenantry plan` and `tenantry endpoint create`, and the body of the REST call. The last four "
        "are for plans only. Below `serving` every other key is a [parameter of the engine](runtimes.md)."
    )
    return _page("Requests", intro, ("field", "required", "meaning"), rows)


def _fields(
    form: type[BaseModel], prefix: str, *, without: type[BaseModel] | None = None
) -> list[tuple[str, str, str]]:
    rows = []
    for name, info in form.model_fields.items():
        if without is not None and name in without.model_fields:
            continue
        path = f"{prefix}{info.alias or name}"
        rows.append((f"`{path}`", "yes" if info.is_required() else "", info.description or _forms_doc(info.annotation)))
        inner = _form_of(info.annotation)
        if inner is not None:
            rows += _fields(inner[0], f"{path}{inner[1]}.")
    return rows


def _form_of(annotation: Any) -> tuple[type[BaseModel], str] | None:
    """The form below a field, and how its path is written: items of a list get `[]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, ""
    first = next(iter(typing.get_args(annotation)), None)
    return (first, "[]") if isinstance(first, type) and issubclass(first, BaseModel) else None


def _forms_doc(annotation: Any) -> str:
    return (annotation.__doc__ or "") if isinstance(annotation, type) else ""


def models_page() -> str:
    """Every model of the catalog."""
    rows = [
        (
            f"`{model.id}`",
            str(model.kind),
            model.master.runtime,
            str(model.master.hardware.gpus),
            f"{model.architecture.weights_bytes / 1e9:.1f} GB",
            f"[{model.card.licence.name}]({model.card.licence.url})",
            model.description,
        )
        for _, model in sorted(load_catalog().models.items())
    ]
    columns = ("model", "kind", "runtime", "GPUs", "weights", "licence", "description")
    return _page("Models", "From `provisioner/catalog/models/`.", columns, rows)


def policies_page() -> str:
    """Every admission policy, and the tiers that bind it."""
    tiers = sorted(load_catalog().tiers.items())
    rows = [
        (
            f"[`{policy.name}`](../../policies/admission/{policy.name}/policy.yaml)",
            policy.refuses,
            ", ".join(name for name, tier in tiers if policy.name in tier.policies) or "none",
        )
        for policy in load_policies(pack_root() / "policies" / "admission")
    ]
    intro = "From `policies/admission/<policy>/policy.yaml`; samples of what each allows and refuses lie beside it."
    return _page("Admission policies", intro, ("policy", "refuses", "tiers that bind it"), rows)


def _helps(command: Any, context: typer.Context) -> Iterator[tuple[str, str]]:
    if not isinstance(command, typer.core.TyperGroup) or context.parent is None:
        yield context.command_path, command.get_help(context).rstrip()
    if isinstance(command, typer.core.TyperGroup):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None and not inner.hidden:
                child = typer.Context(
                    inner, info_name=name, parent=context, terminal_width=WIDTH, max_content_width=WIDTH
                )
                yield from _helps(inner, child)


def _page(title: str, head: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join([f"# {title}", "", head, "", *_table(columns, rows), ""])


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    head = [f"| {' | '.join(columns)} |", f"|{'|'.join('---' for _ in columns)}|"]
    return head + [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main())
