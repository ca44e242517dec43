"""Strategic merge and JSON patches, as kustomize applies them to plain values. Pure."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

_KEYS: Mapping[str, tuple[str, ...]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "ephemeralContainers": ("name",),
    "env": ("name",),
    "volumes": ("name",),
    "imagePullSecrets": ("name",),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "ports": ("containerPort", "port"),
    "hostAliases": ("ip",),
    "topologySpreadConstraints": ("topologyKey",),
}
"""The merge keys of the lists of built-in kinds; all other lists are replaced."""


def merged(value: Any, patch: Any) -> Any:
    """A value with a strategic merge patch applied to it; the value is changed in place."""
    if not isinstance(value, dict) or not isinstance(patch, Mapping):
        return patch
    if patch.get("$patch") == "replace":
        return {key: item for key, item in patch.items() if key != "$patch"}
    for key, item in patch.items():
        if key == "$patch":
            continue
        if item is None or (isinstance(item, Mapping) and item.get("$patch") == "delete"):
            value.pop(key, None)
        elif isinstance(item, list) and isinstance(value.get(key), list) and key in _KEYS:
            value[key] = _merged_list(value[key], item, _KEYS[key])
        else:
            value[key] = merged(value.get(key), item)
    return value


def _merged_list(values: list[Any], patches: list[Any], keys: tuple[str, ...]) -> list[Any]:
    found = list(values)
    for patch in patches:
        if not isinstance(patch, Mapping):
            return patches
        if patch.get("$patch") == "replace":
            return [item for item in patches if item is not patch]
        name = _name(patch, keys)
        place = next(
            (place for place, item in enumerate(found) if name is not None and _name(item, keys) == name), None
        )
        if place is None:
            found.append(patch)
        elif patch.get("$patch") == "delete":
            del found[place]
        else:
            found[place] = merged(found[place], patch)
    return found


def _name(item: Any, keys: tuple[str, ...]) -> tuple[str, Any] | None:
    if not isinstance(item, Mapping):
        return None
    return next(((key, item[key]) for key in keys if key in item), None)


def json_patched(value: Any, operations: list[Any]) -> Any:
    """A value with the operations add, replace and remove of a JSON patch applied, those that fit nothing left out."""
    for operation in operations:
        if not isinstance(operation, Mapping) or not isinstance(operation.get("path"), str):
            continue
        *around, last = [_plain(part) for part in operation["path"].split("/")[1:]] or [""]
        holder = value
        for part in around:
            holder = _step(holder, part)
        kind, wanted = operation.get("op"), operation.get("value")
        if isinstance(holder, dict):
            if kind == "remove":
                holder.pop(last, None)
            elif kind in ("add", "replace"):
                holder[last] = wanted
        elif isinstance(holder, list):
            _change_list(holder, last, kind, wanted)
    return value


def unfit(value: Any, operations: list[Any]) -> tuple[int, str] | None:
    """The place and path of the first operation of a JSON patch that fits nothing in a value; None where all fit.

    Earlier operations are applied to a copy first, as they may make what later ones change (RFC 6902).
    """
    found = copy.deepcopy(value)
    for place, operation in enumerate(copy.deepcopy(operations)):
        if not isinstance(operation, Mapping) or not isinstance(operation.get("path"), str):
            return None
        *around, last = [_plain(part) for part in operation["path"].split("/")[1:]] or [""]
        holder = found
        for part in around:
            holder = _step(holder, part)
        is_there = _step(holder, last) is not None or (isinstance(holder, dict) and last in holder)
        is_new = operation.get("op") == "add" and isinstance(holder, dict | list)
        if operation.get("op") in ("add", "replace", "remove") and not is_there and not is_new and around:
            return place, operation["path"]
        found = json_patched(found, [operation])
    return None


def _plain(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")


def _change_list(holder: list[Any], last: str, kind: Any, wanted: Any) -> None:
    if last == "-" and kind == "add":
        holder.append(wanted)
    elif last.isdecimal() and int(last) < len(holder):
        if kind == "add":
            holder.insert(int(last), wanted)
        elif kind == "replace":
            holder[int(last)] = wanted
        elif kind == "remove":
            del holder[int(last)]


def _step(holder: Any, part: str) -> Any:
    if isinstance(holder, dict):
        return holder.get(part)
    if isinstance(holder, list) and part.isdecimal() and int(part) < len(holder):
        return holder[int(part)]
    return None
