"""JSON patch, JSON merge patch and strategic merge patch.

The first is the jsonpatch library, the second ten lines of RFC 7386, the third follows the Kubernetes documentation of
strategic merge: merge keys and strategies come from the `Shape`, directives (`$patch`, `$deleteFromPrimitiveList`,
`$setElementOrder`, `$retainKeys`) from the patch. Pure; a patch that does not fit raises a StatusError.
"""

from __future__ import annotations

import copy
from typing import Any, Final

import jsonpatch
import jsonpointer
import orjson

from provisioner.embedded.apiserver import status
from provisioner.embedded.apiserver.shape import ANY, Json, Shape

_MAX_OPERATIONS: Final = 10_000
_MAX_COPIED_BYTES: Final = 3 * 1024 * 1024
_PATCH: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_DELETE: Final = "$deleteFromPrimitiveList/"
_ORDER: Final = "$setElementOrder/"


def json_patch(document: Json, operations: Any) -> Json:
    """RFC 6902. A `null` patch changes nothing. Raises 400 on what is no list, 422 on what cannot be applied."""
    if operations is None:
        return copy.deepcopy(document)
    if not isinstance(operations, list) or len(operations) > _MAX_OPERATIONS:
        raise status.bad_request(f"a JSON patch is a list of at most {_MAX_OPERATIONS} operations")
    patched = copy.deepcopy(document)
    copied = 0
    try:
        for operation in operations:
            patched = jsonpatch.JsonPatch([operation]).apply(patched, in_place=True)
            if operation["op"] == "copy":
                copied += len(orjson.dumps(jsonpointer.resolve_pointer(patched, operation["path"], None)))
                _check_copied(copied)
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError, AttributeError) as error:
        message = f"the server rejected our request due to an error in our request: {error}"
        raise status.StatusError(422, "Invalid", message, details={}) from error
    return _as_object(patched)


def _check_copied(size: int) -> None:
    """A few copies of copies would otherwise fill the memory."""
    if size > _MAX_COPIED_BYTES:
        raise status.too_large("the JSON patch copies too much")


def merge_patch(document: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = dict(document) if isinstance(document, dict) else {}
    for name, member in patch.items():
        if member is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), member)
    return merged


def merged_object(document: Json, patch: Any) -> Json:
    """A JSON merge patch on an object. Raises 400 unless the patch is an object."""
    return _as_object(merge_patch(document, _as_object(patch)))


def strategic_patch(document: Json, patch: Any, *, shape: Shape) -> Json:
    """A strategic merge patch on an object of a built-in kind. Raises 400 on directives that make no sense."""
    return _as_object(_merge_dict(document, _as_object(patch), shape))


def _merge_dict(current: Json, patch: Json, shape: Shape) -> Json:
    directive = patch.get(_PATCH)
    if directive == "replace":
        return {name: copy.deepcopy(member) for name, member in patch.items() if name != _PATCH}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise status.bad_request(f"reading strategic merge patch: unknown $patch directive: {directive}")
    merged = dict(current)
    if _RETAIN in patch:
        merged = {name: member for name, member in merged.items() if name in patch[_RETAIN]}
    for name, member in patch.items():
        if name.startswith("$"):
            continue
        if member is None:
            merged.pop(name, None)
        else:
            merged[name] = _merge_member(merged.get(name), member, shape.at(name) or ANY)
    for name in list(patch):
        if name.startswith(_DELETE):
            _delete_from(merged, name.removeprefix(_DELETE), patch[name])
        elif name.startswith(_ORDER):
            field = name.removeprefix(_ORDER)
            _reorder(merged, field, patch[name], shape.at(field) or ANY)
    return merged


def _merge_member(current: Any, patch: Any, shape: Shape) -> Any:
    if isinstance(patch, dict):
        base = current if isinstance(current, dict) and "replace" not in shape.patch_strategies else {}
        return _merge_dict(base, patch, shape)
    if isinstance(patch, list) and "merge" in shape.patch_strategies:
        before = current if isinstance(current, list) else []
        return _merge_list(before, patch, shape) if shape.patch_key else _union(before, patch)
    return copy.deepcopy(patch)


def _union(before: list[Any], patch: list[Any]) -> list[Any]:
    return [*before, *(item for item in patch if item not in before)]


def _merge_list(before: list[Any], patch: list[Any], shape: Shape) -> list[Any]:
    key = shape.patch_key
    if any(_is_directive(item, "replace") for item in patch):
        return [copy.deepcopy(item) for item in patch if not _is_directive(item, "replace")]
    merged = list(before)
    for item in patch:
        if not isinstance(item, dict) or key not in item:
            raise status.bad_request(f"reading strategic merge patch: an item lacks its merge key: {key}")
        place = next((at for at, found in enumerate(merged) if found.get(key) == item[key]), None)
        if _is_directive(item, "delete"):
            merged = [found for found in merged if found.get(key) != item[key]]
        elif place is None:
            merged.append(_merge_dict({}, item, shape.item))
        else:
            merged[place] = _merge_dict(merged[place], item, shape.item)
    return merged


def _is_directive(item: Any, directive: str) -> bool:
    return isinstance(item, dict) and item.get(_PATCH) == directive


def _delete_from(merged: Json, name: str, values: Any) -> None:
    if isinstance(merged.get(name), list):
        merged[name] = [item for item in merged[name] if item not in values]


def _reorder(merged: Json, name: str, order: Any, shape: Shape) -> None:
    """Puts the items that `order` names into its order; the others keep their places after what they followed."""
    items = merged.get(name)
    if not isinstance(items, list) or not isinstance(order, list):
        return
    key = shape.patch_key
    wanted = [item.get(key) if isinstance(item, dict) else item for item in order]
    ranks = {value: rank for rank, value in enumerate(wanted)}
    identities = [item.get(key) if isinstance(item, dict) else item for item in items]
    named = iter(sorted((i for i in range(len(items)) if identities[i] in ranks), key=lambda i: ranks[identities[i]]))
    merged[name] = [items[next(named)] if identity in ranks else items[at] for at, identity in enumerate(identities)]


def _as_object(value: Any) -> Json:
    if not isinstance(value, dict):
        raise status.bad_request("a patch must leave an object")
    return value
