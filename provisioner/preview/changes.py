"""What changed between two sets of objects: pairs that are the same object, renames, fields, and what each does.

Works on objects in which placeholders stand for what is a unit's own, once for all units that change alike; `compare`
calls it. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from provisioner.lint.credentials import known_form, looks_secret
from provisioner.preview.effect import Effect, Reach, Verdict, judge
from provisioner.preview.parts import Object, Part, identity, parts, title
from provisioner.preview.placeholders import without_ordinals
from provisioner.preview.report import FieldChange, ObjectChange
from provisioner.preview.rules import RULES
from provisioner.preview.rules.values import VALUES
from provisioner.rendering.canonical import canonical_yaml
from provisioner.rendering.diff import ABSENT, Difference, differences, shown
from provisioner.rendering.opening import opened_text

_ALIKE = 0.6
"""Of the fields of two objects, how many have to be equal for one to be the other under a new name."""
_MAX_PAIRS = 400
"""Objects of a kind are compared for renames while there are no more pairs than this."""
_MAX_SHOWN = 2_000
"""Characters of a value that a report holds."""
_ONE_LINE = 100
MASKED = "(secret)"
_SECRET_KINDS = frozenset({"Secret", "ProjectSecret", "SharedSecret"})
_ITEM_VALUE = re.compile(r"\[([^]]*)\]\.value$")
_GIVEN = re.compile(r"(?<![\w.-])([\w.-]++)\s*+[:=]\s*+(?=(\S.{0,400}))")
"""A name and what it is given; possessive and bounded, since lines may be long."""
_LAST = re.compile(r"([^.>\[\]]+)\]?$")


@dataclass(frozen=True, slots=True)
class Pair:
    """An object before and after, ABSENT on the side that does not have it."""

    before: Any
    after: Any

    @property
    def found(self) -> Object:
        """The object on the side that has it, the later one first."""
        one: Object = self.before if self.after is ABSENT else self.after
        return one

    @property
    def was_renamed(self) -> bool:
        """Whether it is the same object under another name."""
        return self.before is not ABSENT and self.after is not ABSENT and identity(self.before) != identity(self.after)


def paired(before: Sequence[Object], after: Sequence[Object]) -> list[Pair]:
    """Which objects are the same: by identity, then those of a kind that are alike under two names."""
    old, new = {identity(found): found for found in before}, {identity(found): found for found in after}
    pairs = [Pair(old[key], new[key]) for key in old if key in new]
    gone = {key: found for key, found in old.items() if key not in new}
    come = {key: found for key, found in new.items() if key not in old}
    for one, other in _renames(gone, come):
        pairs.append(Pair(gone.pop(one), come.pop(other)))
    return [
        *pairs,
        *(Pair(found, ABSENT) for found in gone.values()),
        *(Pair(ABSENT, found) for found in come.values()),
    ]


_Key = tuple[str, str, str, str]


def _renames(gone: Mapping[_Key, Object], come: Mapping[_Key, Object]) -> list[tuple[_Key, _Key]]:
    """Pairs of names of what is probably one object, the most alike first."""
    near = [(one, other) for one in gone for other in come if one[:2] == other[:2]]
    if len(near) > _MAX_PAIRS:
        return []
    leaves = {key: set(_leaves(found)) for side in (gone, come) for key, found in side.items()}
    scored = [(_alike(leaves[one], leaves[other]), one, other) for one, other in near]
    taken: set[_Key] = set()
    chosen = []
    for score, one, other in sorted(scored, key=lambda item: (-item[0], item[1:])):
        if score >= _ALIKE and one not in taken and other not in taken:
            taken |= {one, other}
            chosen.append((one, other))
    return chosen


def _alike(one: set[str], other: set[str]) -> float:
    return len(one & other) / max(len(one | other), 1)


def _leaves(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, held in value.items():
            if path or key not in ("apiVersion", "kind"):  # equal anyhow, so they would make small objects alike
                yield from _leaves(held, f"{path}.{key}")
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item, f"{path}[]")
    elif path not in (".metadata.name", ".metadata.namespace"):
        yield f"{path}={value!r}"


def object_change(pair: Pair, *, reach: Reach, known_as: str = "") -> ObjectChange | None:
    """What differs in an object, None where nothing does; `known_as` is what rules know it by, if not by its kind."""
    kind = str(pair.found.get("kind", ""))
    renamed = pair.was_renamed
    fields: list[FieldChange] = []
    added = removed = 0
    for part in parts(pair.before, pair.after, kind=kind, reach=reach):
        known = known_as if known_as and not part.path else part.kind
        for found in differences(part.before, part.after, opened=opened_text):
            added, removed = added + _size(found.after), removed + _size(found.before)
            fields.append(_field_change(part, found, known))
    if renamed:
        fields = [_renaming(pair, kind, reach), *(change for change in fields if change.path not in _NAMES)]
    if not fields:
        return None
    sign = "+" if pair.before is ABSENT else "-" if pair.after is ABSENT else "→" if renamed else "±"
    return ObjectChange(
        sign=sign,
        kind=kind,
        name=without_ordinals(title(pair.found)),
        renamed_from=without_ordinals(title(pair.before)) if renamed else "",
        added=added,
        removed=removed,
        fields=tuple(sorted(fields, key=lambda change: (-change.effect, change.path))),
    )


_NAMES = frozenset({"metadata.name", "metadata.namespace"})


def _renaming(pair: Pair, kind: str, reach: Reach) -> FieldChange:
    """A new name is a new object; the old one goes."""
    gone = judge(RULES, kind, "", before=pair.before, after=ABSENT)
    come = judge(RULES, kind, "", before=ABSENT, after=pair.after)
    worst = max(gone, come, key=lambda verdict: verdict.effect)
    return FieldChange(
        path="metadata.name",
        before=title(pair.before),
        after=title(pair.after),
        effect=worst.effect,
        reach=reach,
        reason=worst.reason,
    )


def _field_change(part: Part, found: Difference, kind: str) -> FieldChange:
    verdict = judge(RULES, kind, found.path, before=found.before, after=found.after)
    if _is_layout(part, found):
        verdict = Verdict(Effect.NOTHING, "comments and layout only")
    before, after = (value and without_ordinals(value) for value in _shown_pair(part.kind, found))
    return FieldChange(
        path=_joined(part.path, found.path),
        before=before,
        after=after,
        effect=verdict.effect,
        reach=part.reach,
        reason=verdict.reason,
    )


def _size(value: Any) -> int:
    """How many fields a value stands for in a summary."""
    if isinstance(value, Mapping | list) and value:
        return sum(_size(held) for held in (value.values() if isinstance(value, Mapping) else value))
    return 0 if value is ABSENT else 1


def _is_layout(part: Part, found: Difference) -> bool:
    """Whether two texts of settings hold the same values."""
    if part.kind not in (VALUES, "VirtualClusterInstance") or not isinstance(found.before, str):
        return False
    old = opened_text(found.before)
    return old is not None and isinstance(found.after, str) and old == opened_text(found.after)


def _joined(place: str, path: str) -> str:
    if not place or not path:
        return place or path
    return f"{place}{path}" if place.endswith(">") or path.startswith("[") else f"{place}.{path}"


def _shown_pair(kind: str, found: Difference) -> tuple[str | None, str | None]:
    """Both values as a reader sees them; of texts of several lines only the lines that differ."""
    before, after = found.before, found.after
    if isinstance(before, str) and isinstance(after, str):
        if _is_secret(kind, found.path, before) or _is_secret(kind, found.path, after):
            return MASKED, MASKED
        if "\n" in before + after:
            before, after = _lines_that_differ(before.split("\n"), after.split("\n"))
    return _shown(kind, found.path, before), _shown(kind, found.path, after)


def _lines_that_differ(before: list[str], after: list[str]) -> tuple[str, str]:
    blocks = [
        block for block in SequenceMatcher(None, before, after, autojunk=False).get_opcodes() if block[0] != "equal"
    ]
    old = [line for _, start, end, _, _ in blocks for line in before[start:end]]
    new = [line for _, _, _, start, end in blocks for line in after[start:end]]
    return "\n".join(old), "\n".join(new)


def _line(line: str) -> str:
    """A line of a text, masked where it gives something secret a value."""
    for given in _GIVEN.finditer(line):
        if looks_secret(given[1], given[2]):
            return line[: given.start(2)] + MASKED
    return line


def _shown(kind: str, path: str, value: Any) -> str | None:
    if value is ABSENT:
        return None
    masked = _masked(kind, path, value)
    text = _text(masked)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}… ({len(text) - _MAX_SHOWN} more characters)"


def _text(value: Any) -> str:
    """JSON on one line; several lines where that is easier to read."""
    if isinstance(value, str) and "\n" in value:
        return value
    text = shown(value)
    return canonical_yaml(value).rstrip("\n") if isinstance(value, Mapping | list) and len(text) > _ONE_LINE else text


def _masked(kind: str, path: str, value: Any) -> Any:
    """The value with everything in it masked that is secret."""
    if isinstance(value, Mapping):
        if set(value) >= {"name", "value"} and isinstance(value["name"], str):  # a variable
            return {**value, "value": _masked(kind, f"{path}[{value['name']}].value", value["value"])}
        return {key: _masked(kind, f"{path}.{key}" if path else key, held) for key, held in value.items()}
    if isinstance(value, list):
        return [_masked(kind, f"{path}[{at}]", held) for at, held in enumerate(value)]
    if not isinstance(value, str):
        return value
    return MASKED if _is_secret(kind, path, value) else "\n".join(map(_line, value.split("\n")))


def _is_secret(kind: str, path: str, value: str) -> bool:
    if kind in _SECRET_KINDS and re.match(r"(spec\.)?(data|stringData)\b", path):
        return True
    named = _ITEM_VALUE.search(path) or _LAST.search(path)
    return known_form(value) is not None or looks_secret(named[1] if named else "", value)
