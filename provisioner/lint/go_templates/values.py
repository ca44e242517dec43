"""Functions of templates about lists, mappings, comparisons and forms of values. Pure.

Sources: https://pkg.go.dev/text/template#hdr-Functions, https://masterminds.github.io/sprig/.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from typing import Any

from provisioner.lint.go_templates.faults import Unknown
from provisioner.lint.go_templates.printing import bounded, go_text, printed, to_json, to_yaml, weighed
from provisioner.lint.go_templates.texts import text, whole
from provisioner.lint.yaml_text import parse_documents

MAX_ITEMS = 10_000
"""Greatest number of items of a list that is made."""
_MAX_PARSED = 200_000


def is_true(value: Any) -> bool:
    """Whether `if` takes the branch: not for nil, false, zero and what is empty."""
    return bool(value)


def _same(one: Any, other: Any) -> bool:
    """As `eq` compares: numbers of one kind, texts, booleans; others would fail."""
    if isinstance(one, bool) is not isinstance(other, bool) and None not in (one, other):
        raise Unknown(0, "values of different forms are compared")
    if isinstance(one, str) is not isinstance(other, str) and None not in (one, other):
        raise Unknown(0, "values of different forms are compared")
    return bool(weighed(one) == weighed(other))


def _less(one: Any, other: Any) -> bool:
    is_comparable = isinstance(one, str) is isinstance(other, str)
    if not is_comparable or not isinstance(one, str | int | float) or not isinstance(other, str | int | float):
        raise Unknown(0, "values of different forms are compared")
    return one < other  # type: ignore[operator]


def _items(value: Any) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise Unknown(0, "a list belongs here")
    return value


def _entries(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Unknown(0, "a mapping belongs here")
    return value


def _long(values: list[Any]) -> list[Any]:
    if len(values) > MAX_ITEMS:
        raise Unknown(0, "a list grows too long")
    return values


def _index(value: Any, *keys: Any) -> Any:
    for key in keys:
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list | str) and isinstance(key, int | float) and 0 <= int(key) < len(value):
            value = value[int(key)] if isinstance(value, list) else ord(value[int(key)])
        else:
            raise Unknown(0, "an index that there is none of")
    return value


def _length(value: Any) -> int:
    if not isinstance(value, str | list | dict):
        raise Unknown(0, "the length of such a value")
    return len(value.encode("utf-8", "replace")) if isinstance(value, str) else len(value)


def _dict(*parts: Any) -> dict[str, Any]:
    pairs = list(parts) + ([""] if len(parts) % 2 else [])
    return {go_text(pairs[place]): pairs[place + 1] for place in range(0, len(pairs), 2)}


def _set(value: Any, key: Any, item: Any) -> Any:
    _entries(value)[text(key)] = item
    return value


def _unset(value: Any, key: Any) -> Any:
    _entries(value).pop(text(key), None)
    return value


def _merge(*values: Any, overwrites: bool = False) -> Any:
    first, *others = values
    for other in others:
        _merge_into(_entries(first), _entries(copy.deepcopy(other or {})), overwrites)
    return first


def _merge_into(value: dict[str, Any], other: dict[str, Any], overwrites: bool) -> None:
    for key, item in other.items():
        have = value.get(key)
        if isinstance(have, dict) and isinstance(item, dict):
            _merge_into(have, item, overwrites)
        elif not is_true(have) or (overwrites and is_true(item)):
            value[key] = item


def _dig(*parts: Any) -> Any:
    *keys, default, value = parts
    for key in keys:
        if not isinstance(value, dict) or key not in value:
            return default
        value = value[key]
    return value


def _until(start: Any, stop: Any, step: Any = 1) -> list[int]:
    if whole(step) == 0:
        return []
    found = range(whole(start), whole(stop), whole(step))
    if len(found) > MAX_ITEMS:
        raise Unknown(0, "a list grows too long")
    return list(found)


def _sequence(*parts: Any) -> str:
    numbers = [whole(part) for part in parts]
    first, last = (numbers[0], numbers[-1]) if len(numbers) > 1 else (1, numbers[0])
    step = numbers[1] if len(numbers) == 3 else 1 if last >= first else -1
    return " ".join(map(str, _until(first, last + (1 if step > 0 else -1), step)))


def _join(separator: Any, values: Any) -> str:
    shown = [go_text(value) for value in (values if isinstance(values, list) else [values]) if value is not None]
    if sum(map(len, shown)) + len(shown) * len(text(separator)) > 1_000_000:
        raise Unknown(0, "a text grows too long")
    return str(separator).join(shown)


def _slice(value: Any, start: Any = 0, end: Any = None) -> Any:
    items = value if isinstance(value, str) else _items(value)
    return items[max(whole(start), 0) : len(items) if end is None else max(whole(end), 0)]


def _uniq(values: Any) -> list[Any]:
    found: list[Any] = []
    for value in weighed(_items(values))[:1000]:
        if value not in found:
            found.append(value)
    return found


def _kind(value: Any) -> str:
    for form, name in (
        (bool, "bool"),
        (int, "int"),
        (float, "float64"),
        (str, "string"),
        (list, "slice"),
        (dict, "map"),
    ):
        if isinstance(value, form):
            return name
    return "invalid"


def _kind_is(name: Any, value: Any) -> bool:
    own = _kind(value)
    return name == own or (own == "int" and name in ("float64", "int64"))


def _type(value: Any) -> str:
    own = _kind(value)
    return {"map": "map[string]interface {}", "slice": "[]interface {}", "invalid": "<nil>"}.get(own, own)


def _from_yaml(value: Any) -> Any:
    written = text(value)
    if len(written) > _MAX_PARSED:
        raise Unknown(0, "a text that is too long to be read")
    documents = list(parse_documents(written, file=""))
    if any(document.oddities for document in documents):
        raise Unknown(0, "no YAML")
    return documents[0].value if documents else {}


def _from_json(value: Any) -> Any:
    try:
        return json.loads(text(value)[:_MAX_PARSED])
    except (ValueError, RecursionError) as error:
        raise Unknown(0, "no JSON") from error


def _pick(value: Any, *keys: Any) -> dict[str, Any]:
    return {key: item for key, item in _entries(value).items() if key in keys}


def _omit(value: Any, *keys: Any) -> dict[str, Any]:
    return {key: item for key, item in _entries(value).items() if key not in keys}


def _split(separator: Any, value: Any) -> dict[str, str]:
    return {f"_{place}": part for place, part in enumerate(_parts(separator, value))}


def _parts(separator: Any, value: Any) -> list[str]:
    return _long(text(value).split(text(separator)) if separator else list(text(value)))


def _plucked(key: Any, *values: Any) -> list[Any]:
    return [value[key] for value in values if isinstance(value, dict) and key in value]


def _default(otherwise: Any, *value: Any) -> Any:
    return value[0] if value and is_true(value[0]) else otherwise


VALUE_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "all": lambda *values: all(map(is_true, values)),
    "any": lambda *values: any(map(is_true, values)),
    "append": lambda values, item: _long([*_items(values), item]),
    "coalesce": lambda *values: next((value for value in values if is_true(value)), None),
    "compact": lambda values: [value for value in _items(values) if is_true(value)],
    "concat": lambda *values: _long([item for part in values for item in _items(part)]),
    "deepCopy": lambda value: copy.deepcopy(weighed(value)),
    "deepEqual": lambda one, other: weighed(one) == weighed(other),
    "default": _default,
    "dict": _dict,
    "dig": _dig,
    "empty": lambda value: not is_true(value),
    "eq": lambda one, *others: any(_same(one, other) for other in others),
    "first": lambda values: _items(values)[0] if values else None,
    "fromJson": _from_json,
    "fromJsonArray": _from_json,
    "fromYaml": _from_yaml,
    "fromYamlArray": _from_yaml,
    "ge": lambda one, other: not _less(one, other),
    "get": lambda value, key: _entries(value).get(key, ""),
    "gt": lambda one, other: _less(other, one),
    "has": lambda item, values: item in weighed(_items(values)),
    "hasKey": lambda value, key: key in _entries(value),
    "index": _index,
    "initial": lambda values: _items(values)[:-1],
    "join": _join,
    "keys": lambda *values: _long([key for value in values for key in sorted(_entries(value))]),
    "kindIs": _kind_is,
    "kindOf": _kind,
    "last": lambda values: _items(values)[-1] if values else None,
    "le": lambda one, other: not _less(other, one),
    "len": _length,
    "list": lambda *values: list(values),
    "lookup": lambda *_: {},
    "lt": _less,
    "merge": _merge,
    "mergeOverwrite": lambda *values: _merge(*values, overwrites=True),
    "ne": lambda one, other: not _same(one, other),
    "not": lambda value: not is_true(value),
    "omit": _omit,
    "pick": _pick,
    "pluck": _plucked,
    "prepend": lambda values, item: _long([item, *_items(values)]),
    "print": printed,
    "println": lambda *values: bounded(" ".join(go_text(value) for value in values) + "\n"),
    "rest": lambda values: _items(values)[1:],
    "reverse": lambda values: _items(values)[::-1],
    "seq": _sequence,
    "set": _set,
    "slice": _slice,
    "sortAlpha": lambda values: sorted(map(go_text, _items(values))),
    "split": _split,
    "splitList": _parts,
    "ternary": lambda one, other, value: one if is_true(value) else other,
    "toJson": to_json,
    "toPrettyJson": lambda value: to_json(value, indent=2),
    "toRawJson": to_json,
    "toStrings": lambda values: [go_text(value) for value in _items(values)],
    "toYaml": to_yaml,
    "tuple": lambda *values: list(values),
    "typeIs": lambda name, value: name in (_type(value), _kind(value)),
    "typeOf": _type,
    "uniq": _uniq,
    "unset": _unset,
    "until": lambda stop: _until(0, stop, 1 if whole(stop) >= 0 else -1),
    "untilStep": _until,
    "values": lambda *values: _long([value[key] for value in values for key in sorted(_entries(value))]),
    "without": lambda values, *gone: [value for value in weighed(_items(values)) if value not in gone],
}
