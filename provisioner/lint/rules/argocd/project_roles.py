"""What an AppProject of Argo CD lets people do, and when: roles and sync windows.

Sources: Argo CD's validation of AppProjects (`ValidateProject`), its pages on projects and sync windows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from provisioner.catalog.fields import FieldPath, shown
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.schedule import is_cron, is_duration, seconds
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, items, literal, text
from provisioner.lint.world import Object, World

_ACTIONS = ("get", "create", "update", "delete", "sync", "override", "action", "invoke")


def _projects(world: World) -> Iterator[Object]:
    return (found for found in world.of_kind("AppProject") if found.group == "argoproj.io")


def _policies(project: Object) -> Iterator[tuple[FieldPath, str, str]]:
    """The known policies of a project's roles: where, the role's name and the policy."""
    for path, role in items(project.value, "spec", "roles"):
        for place, policy in items(role, "policies"):
            if isinstance(policy, str) and not has_hole(policy) and not has_hole(project.name):
                yield (*path, *place), text(role, "name") or "", policy


@rule("project-policy-refused", Severity.ERROR)
def project_policy_refused(world: World) -> Iterator[Hit]:
    """A policy of an AppProject's role is one that Argo CD refuses, or allows an action that does not exist.

    It reads `p, proj:<project>:<role>, <resource>, <action>, <project>/<object>, allow` (or `deny`), with the names of
    this project and this role. One wrong policy makes the project invalid, and its Applications stop to sync.
    """
    for project in _projects(world):
        for path, role, policy in _policies(project):
            trouble = _trouble(project.name, role, [part.strip() for part in policy.split(",")])
            if trouble:
                message = f"reading policy of role {role}: {trouble[0]}"
                yield Hit(at=project, path=path, message=message, fix=trouble[1])


def _trouble(project: str, role: str, parts: list[str]) -> tuple[str, str] | None:
    if len(parts) != 6 or parts[0] != "p":
        form = f"p, proj:{project}:{role}, applications, get, {project}/*, allow"
        return f"it has {len(parts)} parts, not the six that begin with `p`", f"write such as `{form}`"
    _, subject, _, action, about, effect = parts
    if subject != f"proj:{project}:{role}":
        return f"it is for another role: `{subject}`", f"write proj:{project}:{role}"
    if not re.fullmatch(rf"{re.escape(project)}/[*\w.:/-]+", about):
        return f"it is about what is not the project's: `{about}`", f"write `{project}/*`"
    if effect not in ("allow", "deny"):
        return f"it neither allows nor denies: `{effect}`", "write allow or deny"
    near = nearest_name(action, _ACTIONS) if action not in (*_ACTIONS, "*") else None
    if near and "/" not in action:
        return f"there is no such action: `{action}`", f"did you mean {near}?"
    return None


@rule("project-sync-window-refused", Severity.ERROR)
def project_sync_window_refused(world: World) -> Iterator[Hit]:
    """A sync window of an AppProject has a kind, a schedule or a duration that Argo CD cannot read.

    The kind is `allow` or `deny`, the schedule a cron expression of five fields, the duration one of Go's, which has no
    days: `24h`. A window that cannot be read makes the project invalid.
    """
    for project in _projects(world):
        for path, window in items(project.value, "spec", "syncWindows"):
            kind, schedule, duration = (literal(window, name) for name in ("kind", "schedule", "duration"))
            if kind is not None and kind not in ("allow", "deny"):
                message = f"reading sync window: no such kind: `{kind}`"
                yield Hit(at=project, path=(*path, "kind"), message=message, fix="write allow or deny")
            if schedule is not None and not is_cron(schedule):
                message = f"reading sync window: no cron expression of five fields: {shown(schedule)}"
                yield Hit(at=project, path=(*path, "schedule"), message=message, fix="write such as `0 22 * * *`")
            if duration is not None and not is_duration(duration):
                message = f"reading sync window: no duration of Go's: {shown(duration)}"
                yield Hit(at=project, path=(*path, "duration"), message=message, fix="write such as `24h`")


_DAY = 24 * 3600.0
_DAILY = re.compile(r"\S+\s+\S+\s+\*\s+\*\s+\*")


@rule("project-window-always-denies", Severity.WARNING)
def project_window_always_denies(world: World) -> Iterator[Hit]:
    """A sync window denies all day, every day: nothing of the project is ever synced.

    A window that opens daily and is open for 24 hours or more never closes. Denying wins over allowing (user guide,
    Sync Windows).
    """
    for project in _projects(world):
        for path, window in items(project.value, "spec", "syncWindows"):
            schedule, length = literal(window, "schedule") or "", seconds(literal(window, "duration") or "")
            if (
                literal(window, "kind") == "deny"
                and length is not None
                and length >= _DAY
                and _DAILY.fullmatch(schedule)
            ):
                message = f"reading sync window: it denies without a break: `{schedule}`"
                yield Hit(at=project, path=(*path, "duration"), message=message, fix="make it shorter, or remove it")


@rule("project-allows-nothing", Severity.WARNING)
def project_allows_nothing(world: World) -> Iterator[Hit]:
    """An AppProject permits no repository or no destination, so none of its Applications can sync.

    What is not listed is not permitted; an empty or missing list permits nothing.
    """
    for project in _projects(world):
        named = {"sourceRepos": "repository", "destinations": "destination"}
        for field, word in named.items() if isinstance(project.value.get("spec"), dict) else ():
            if not project.value["spec"].get(field):
                message = f"permitting Applications: no {word} is permitted: `{project.name}`"
                fix = f"list what is permitted in `{field}`"
                yield Hit(at=project, path=("spec",), message=message, fix=fix)
                break
