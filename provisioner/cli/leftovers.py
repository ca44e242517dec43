"""What a deleted endpoint left behind: asked of the control plane, the delivery repository and the process table.

Used by the demo to prove that there is nothing. Each finding is a short sentence with the name of what was found.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from provisioner.embedded.children import is_held
from provisioner.settings import Settings

_WRITING = os.O_WRONLY | os.O_RDWR


async def find_leftovers(settings: Settings) -> list[str]:
    """Tenant clusters, node claims, environments, applications, routes, branches and endpoints that still exist."""
    from provisioner.wiring import open_inventory

    async with open_inventory(settings) as inventory:
        return await inventory()


def without_those_of(endpoints: Iterable[str], found: Iterable[str]) -> list[str]:
    """What was found and belongs to none of these endpoints, which are still there on purpose."""
    return [one for one in found if not any(endpoint in one for endpoint in endpoints)]


def find_processes(state: Path) -> list[str]:
    """Model servers that still run."""
    return [f"process {lock.parent}" for lock in sorted((state / "pods").rglob("lock")) if is_held(lock)]


def find_open_files(pids: Iterable[int], state: Path) -> list[str]:
    """Regular files outside `state` that the processes or their children hold open for writing.

    Reads /proc; on a system without it the answer is empty.
    """
    found: set[str] = set()
    for pid in _with_children(pids):
        for descriptor in _listed(Path(f"/proc/{pid}/fd")):
            target = _written_file(pid, descriptor.name)
            if target is not None and not target.is_relative_to(state):
                found.add(f"open file {target}")
    return sorted(found)


def _written_file(pid: int, descriptor: str) -> Path | None:
    try:
        target = Path(f"/proc/{pid}/fd/{descriptor}").readlink()
        lines = Path(f"/proc/{pid}/fdinfo/{descriptor}").read_text().splitlines()
    except OSError:
        return None
    flags = next((int(line.split()[1], 8) for line in lines if line.startswith("flags:")), 0)
    is_file = target.is_absolute() and target.is_file() and not target.is_relative_to("/dev")
    return target if flags & _WRITING and is_file else None


def _with_children(pids: Iterable[int]) -> list[int]:
    parents: dict[int, list[int]] = {}
    for folder in _listed(Path("/proc")):
        if folder.name.isdigit() and (parent := _parent(folder)) is not None:
            parents.setdefault(parent, []).append(int(folder.name))
    found, queue = [], list(pids)
    while queue:
        pid = queue.pop()
        found.append(pid)
        queue.extend(parents.get(pid, ()))
    return found


def _parent(folder: Path) -> int | None:
    try:
        return int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return None


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []
