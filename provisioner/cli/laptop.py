"""The processes of a laptop installation: embedded control plane, provisioner and gateway, under one state folder.

Used by the demo. Each process is an ordinary command of `tenantry`, started with an environment that names the state;
what a killed demo left running is ended first, so that a second run finds one of each.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import ClassVar

from provisioner.domain.errors import RejectedError, RetryableError
from provisioner.domain.ids import RandomIds
from provisioner.embedded.children import Child, Children
from provisioner.settings import Settings, read_settings

PROCESSES = ("embedded", "serve", "gateway")
"""In the order in which they need each other; each is the command of that name."""

OPERATOR_PORT = 8404
"""Where the gateway tells how it is, or on another port if somebody has it: no endpoint's URL names it."""

START_SECONDS = 60.0
GRACE_SECONDS = 10.0
_LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The four ports of a laptop installation."""

    api: int = 8400
    control_plane: int = 8401
    gateway: int = 8402
    tenant_gateway: int = 8403

    def claimed(self, claims: ExitStack) -> Ports:
        """The same ports where nobody has them, else others; they are claimed for as long as `claims` is open."""
        return Ports(**{name: _claimed(port, claims) for name, port in asdict(self).items()})

    def require_free(self) -> None:
        """RejectedError (`PortTaken`) when somebody listens on one."""
        for name, port in asdict(self).items():
            if not _is_free(port):
                raise RejectedError(
                    f"starting the {name.replace('_', ' ')} of a laptop installation: its port is taken: {port}",
                    reason="PortTaken",
                    hint="stop what listens there (URLs of endpoints name these ports), or choose another `--state`",
                )


class Laptop:
    """One installation. Use: `start`, then `settings` for commands, `stop` at the end.

    `ports` are wishes for the first start; the installation keeps what it then got. ConflictError (`StateInUse`) while
    another process runs it.
    """

    command: ClassVar[tuple[str, ...]] = (sys.executable, "-m", "provisioner.cli")

    def __init__(self, state: Path, environ: Mapping[str, str], *, ports: Ports) -> None:
        self.state = state
        _make_private(state)
        _make_private(state / "tmp")
        self._children = Children(state / "processes")
        self._claims = ExitStack()
        self.ports = _kept_ports(state / "ports.json", ports, self._claims)
        self.operator_port = _claimed(OPERATOR_PORT, self._claims)
        self.environ = dict(environ) | {
            "TENANTRY_STATE": str(state),
            "TENANTRY_SERVE_ADDR": f"127.0.0.1:{self.ports.api}",
            "TENANTRY_URL": f"http://127.0.0.1:{self.ports.api}",
            "TENANTRY_CONTROL_PLANE": f"http://127.0.0.1:{self.ports.api}",
            "LISTEN_ADDR": f"127.0.0.1:{self.ports.gateway}",
            "ADMIN_ADDR": f"127.0.0.1:{self.operator_port}",
            "TMPDIR": str(state / "tmp"),
            "PYTHONUNBUFFERED": "1",
        }
        self.settings: Settings = read_settings(self.environ)

    async def end_leftovers(self) -> None:
        """End what an earlier run that was killed left running."""
        for name in self._children.names():
            await self._children.end(name, grace_seconds=GRACE_SECONDS)

    def start(self, tell: Callable[[str], None]) -> None:
        """Start the three processes and wait until each answers. Raises what `launch` raises."""
        self.launch(tell)
        self.wait_until_ready()

    def launch(self, tell: Callable[[str], None]) -> None:
        """Start the three processes and wait until the control plane answers; the others need what it wrote.

        Raises RejectedError when a port is taken, RetryableError with the log's last lines.
        """
        self.ports.require_free()
        write_secret(self.settings.gateway_key_file, RandomIds().secret())
        first, *others = PROCESSES
        tell(first)
        self.restart(first)
        for name in others:
            tell(name)
            self._launch(name)

    def wait_until_ready(self) -> None:
        """Wait until every process answers. Raises RetryableError with the log's last lines."""
        for name in PROCESSES:
            self._wait(name)

    def restart(self, name: str) -> None:
        """Start one of the processes, which does not run, and wait until it answers."""
        self._launch(name)
        self._wait(name)

    async def stop(self) -> None:
        """End the processes, the gateway first: what it serves may finish. Then let go of the state."""
        *others, gateway = PROCESSES
        await self._children.end(gateway, grace_seconds=GRACE_SECONDS)
        await asyncio.gather(*(self._children.end(name, grace_seconds=GRACE_SECONDS) for name in others))
        self._claims.close()
        self._children.close()

    def child(self, name: str) -> Child:
        """One of the processes."""
        return self._children.child(name)

    def living(self) -> list[str]:
        """The names of the processes that run."""
        return [name for name in self._children.names() if self._children.child(name).is_alive()]

    def ended(self) -> list[str]:
        """The names of the processes that ought to run and do not."""
        return [name for name in PROCESSES if not self._children.child(name).is_alive()]

    def pids(self) -> list[int]:
        """Their process ids."""
        return [pid for name in self.living() if (pid := self._children.child(name).pid) is not None]

    def _launch(self, name: str) -> None:
        self._children.start(name, [*self.command, name, *self._arguments(name)], environment=self.environ)

    def _arguments(self, name: str) -> tuple[str, ...]:
        if name != "embedded":
            return ()  # the others are configured by the environment
        ports = {"port": self.ports.control_plane, "gateway-port": self.ports.tenant_gateway}
        return tuple(f"--{option}={port}" for option, port in (ports | {"public-port": self.ports.gateway}).items())

    def _answers(self, name: str) -> bool:
        """Whether the process is up: any status but 503."""
        paths = {"embedded": "/readyz", "serve": "/readyz", "gateway": "/v1/models"}
        ports = {"embedded": self.ports.control_plane, "serve": self.ports.api, "gateway": self.ports.gateway}
        connection = HTTPConnection("127.0.0.1", ports[name], timeout=2.0)
        try:
            connection.request("GET", paths[name])
            return connection.getresponse().status != HTTPStatus.SERVICE_UNAVAILABLE
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()

    def _wait(self, name: str) -> None:
        child = self._children.child(name)
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if not child.is_alive():
                break
            if self._answers(name) and self.settings.site.exists():
                return
            time.sleep(_LOOK_SECONDS)
        lines = child.log.read_text(errors="replace").splitlines()[-15:]
        raise RetryableError(
            f"starting `{name}`: it {'does not answer' if child.is_alive() else 'ended'}:\n" + "\n".join(lines),
            reason="ProcessFailed",
            hint=f"the whole log: {child.log}",
        )


def write_secret(file: Path, secret: str) -> None:
    """Write a secret that only we may read; one that is there is kept."""
    if not file.exists():
        _write_whole(file, secret + "\n")


def _write_whole(file: Path, text: str) -> None:
    """All of it or nothing, also when we are killed or the disk is full; only we may read it."""
    draft = file.with_name(f".{file.name}.new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
        opened.write(text)
    draft.replace(file)


def _make_private(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def _kept_ports(file: Path, wanted: Ports, claims: ExitStack) -> Ports:
    """The ports of the first start: endpoints that were made then are reached by them. Free ones near `wanted` if this
    is it."""
    try:
        ports = Ports(**json.loads(file.read_text()))
    except FileNotFoundError:
        ports = wanted.claimed(claims)
        _write_whole(file, json.dumps(asdict(ports)))
    except (ValueError, TypeError) as error:
        raise RejectedError(
            f"reading the ports of this installation: not readable: {file}",
            reason="BadPorts",
            hint="remove the file to choose ports anew; endpoints keep the URL they were made with",
        ) from error
    else:
        for port in asdict(ports).values():
            _claim(port, claims)
    return ports


def _claimed(wanted: int, claims: ExitStack) -> int:
    """The wanted port, or another one where it is taken or claimed; 0 is any."""
    port = wanted
    while not (_is_free(port) and _claim(port, claims)):
        port = _free_port()
    return port


def _claim(port: int, claims: ExitStack) -> bool:
    """Tell other installations that a port is ours before somebody listens there; whether it was not another's.

    The claim is the UDP port of the same number, which nobody here uses: the system gives it to one of those who ask
    at once, and takes it back whatever becomes of us.
    """
    with ExitStack() as claim:
        sign = claim.enter_context(socket.socket(type=socket.SOCK_DGRAM))
        try:
            sign.bind(("127.0.0.1", port))
        except OSError:
            return False
        claims.push(claim.pop_all())
        return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return port != 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        chosen: int = probe.getsockname()[1]
        return chosen
