"""An object taken apart for comparing: a template's versions, the values and objects in them, text that is YAML.

Each part has the kind that rules know it by, and where it stands. Called by `changes`. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from provisioner.preview.effect import Reach
from provisioner.preview.placeholders import dashed, placeholders
from provisioner.preview.rules.published import UNREADABLE, VERSION
from provisioner.preview.rules.values import VALUES
from provisioner.rendering.diff import ABSENT
from provisioner.rendering.opening import opened_text

Object = Mapping[str, Any]
_DOCUMENTS = re.compile(r"^---[ \t]*\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Part:
    """What is compared as one: a kind that rules know, where it stands, and both values, ABSENT where there is none."""

    kind: str
    path: str
    before: Any
    after: Any
    reach: Reach


def identity(found: Object) -> tuple[str, str, str, str]:
    """Group, kind, namespace and name: what makes an object the same one."""
    metadata = found.get("metadata") or {}
    group = str(found.get("apiVersion", "")).rpartition("/")[0]
    return group, str(found.get("kind", "")), str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


def title(found: Object) -> str:
    """Namespace and name, as a summary shows them."""
    _, _, namespace, name = identity(found)
    return f"{namespace}/{name}" if namespace else name


def parts(before: Any, after: Any, *, kind: str, reach: Reach) -> Iterator[Part]:
    """The parts of an object that is on both sides, or ABSENT on one."""
    if kind != "VirtualClusterTemplate" or before is ABSENT or after is ABSENT:
        yield Part(kind, "", before, after, reach)
        return
    old, new = _versions(before), _versions(after)
    yield Part(kind, "", _without_versions(before), _without_versions(after), reach)
    for number in sorted(old.keys() | new.keys(), key=_release):
        at = f"spec.versions[{number}]"
        if number in old and number in new:
            yield from _version_parts(old[number], new[number], at, reach)
        elif number in old:
            yield Part(VERSION, at, {"version": number}, ABSENT, Reach.VERSION)
        else:
            yield Part(VERSION, at, ABSENT, {"version": number}, Reach.VERSION)
            earlier = [known for known in old if _release(known) < _release(number)]
            if earlier:
                last = max(earlier, key=_release)
                yield from _version_parts(old[last], _as_of(new[number], number, last), at, Reach.VERSION)


def _as_of(entry: Object, number: str, earlier: str) -> Object:
    """The entry with the names of what an earlier version is published with, so that those are no difference."""
    found: Object = placeholders([(dashed(number), dashed(earlier))]).in_value(entry)
    return found


def _version_parts(before: Object, after: Object, at: str, reach: Reach) -> Iterator[Part]:
    old, new = _template(before), _template(after)
    yield Part(VERSION, at, _without_texts(before), _without_texts(after), reach)
    values = [(found.get("helmRelease") or {}).get("values", "") for found in (old, new)]
    if values[0] != values[1]:
        opened = [opened_text(text) if text else {} for text in values]
        shown = values if None in opened or opened[0] == opened[1] else opened
        yield Part(VALUES, f"{at}.template.helmRelease.values>", shown[0], shown[1], reach)
    yield from _inner_parts(old.get("objects") or "", new.get("objects") or "", f"{at}.template.objects>", reach)


def _inner_parts(before: str, after: str, at: str, reach: Reach) -> Iterator[Part]:
    """The objects that a template brings into the tenant cluster, document by document: equal ones are not read."""
    olds, news = _documents(before), _documents(after)
    old = _by_identity(text for text in olds if text not in set(news))
    new = _by_identity(text for text in news if text not in set(olds))
    if old is None or new is None:
        yield Part("objects" if new is not None else UNREADABLE, at, before, after, reach)
        return
    for key in sorted(old.keys() | new.keys()):
        place = f"{at}{key[1]}/{f'{key[2]}/' if key[2] else ''}{key[3]}"
        yield Part(key[1], place, old.get(key, ABSENT), new.get(key, ABSENT), reach)


def _by_identity(texts: Iterator[str]) -> dict[tuple[str, str, str, str], Any] | None:
    found = {}
    for text in texts:
        value = opened_text(text)
        if not isinstance(value, Mapping):
            return None
        found[identity(value)] = value
    return found


def _documents(text: str) -> list[str]:
    return [part.strip("\n") for part in _DOCUMENTS.split(text) if part.strip()]


def _versions(template: Object) -> dict[str, Object]:
    listed = (template.get("spec") or {}).get("versions") or []
    return {str(entry.get("version", "")): entry for entry in listed if isinstance(entry, Mapping)}


def _without_versions(template: Object) -> Object:
    spec = {key: value for key, value in (template.get("spec") or {}).items() if key != "versions"}
    return {**template, "spec": spec}


def _template(version: Object) -> Object:
    found = version.get("template")
    return found if isinstance(found, Mapping) else {}


def _without_texts(version: Object) -> Object:
    template = {key: value for key, value in _template(version).items() if key != "objects"}
    release = template.get("helmRelease")
    if isinstance(release, Mapping):
        template["helmRelease"] = {key: value for key, value in release.items() if key != "values"}
    return {**{key: value for key, value in version.items() if key != "version"}, "template": template}


def _release(version: str) -> tuple[int, ...]:
    numbers = re.findall(r"[0-9]{1,9}", version)
    return tuple(int(number) for number in numbers)
