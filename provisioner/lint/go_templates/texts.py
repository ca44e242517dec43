"""Functions of templates about texts, numbers and versions. Pure.

Sources: https://masterminds.github.io/sprig/ and https://helm.sh/docs/chart_template_guide/function_list/.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from provisioner.lint.go_templates.faults import Unknown
from provisioner.lint.go_templates.printing import MAX_TEXT, bounded, go_text, printf

_MAX_PATTERN, _MAX_SUBJECT, _MAX_REPEATS = 200, 256, 3
_REPEAT = re.compile(r"(?<!\\)[*+{]")
_REPEATED_GROUP = re.compile(r"\)[*+{]")
_NUMBER = re.compile(r"\s*([+-]?\d{1,18})(\.\d+)?\s*")
_VERSION = re.compile(r"v?(\d+)(?:\.(\d+))?(?:\.(\d+))?(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?")
_CONSTRAINT = re.compile(r"\s*(=|!=|>=|=>|<=|=<|>|<|~>|~|\^)?\s*(v?[\dxX*][\w.*+-]*)\s*,?")


def whole(value: Any) -> int:
    """A value as Sprig's `int` makes it a number: 0 where it is none."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if math.isfinite(value) else 0
    found = _NUMBER.fullmatch(value) if isinstance(value, str) else None
    return int(found[1]) if found else 0


def real(value: Any) -> float:
    """A value as Sprig's `float64` makes it a number."""
    if isinstance(value, int | float):
        return float(value)
    found = _NUMBER.fullmatch(value) if isinstance(value, str) else None
    return float(found[0]) if found else 0.0


def text(value: Any) -> str:
    """An argument that has to be a text; a template that gives something else would fail."""
    if not isinstance(value, str):
        raise Unknown(0, "a text belongs here")
    return value


def _indent(size: Any, value: Any) -> str:
    blanks = " " * min(max(whole(size), 0), 200)
    lines = text(value).split("\n")
    if len(lines) * len(blanks) > MAX_TEXT:
        raise Unknown(0, "a text grows too long")
    return blanks + f"\n{blanks}".join(lines)


def _replace(old: Any, new: Any, value: Any) -> str:
    old, new, value = text(old), text(new), text(value)
    if (value.count(old) if old else len(value) + 1) * len(new) > MAX_TEXT:
        raise Unknown(0, "a text grows too long")
    return str(value.replace(old, new))


def _repeat(count: Any, value: Any) -> str:
    if whole(count) * len(text(value)) > MAX_TEXT:
        raise Unknown(0, "a text grows too long")
    return str(value) * max(whole(count), 0)


def _trunc(size: Any, value: Any) -> str:
    size = whole(size)
    return text(value)[:size] if size >= 0 else text(value)[size:]


def _substr(start: Any, end: Any, value: Any) -> str:
    first, last = max(whole(start), 0), whole(end)
    return text(value)[first:] if last < 0 or last > len(text(value)) else text(value)[first:last]


def _quote(mark: str) -> Callable[..., str]:
    def quoted(*values: Any) -> str:
        shown = (go_text(value) for value in values if value is not None)
        if mark == "'":
            return " ".join(f"'{one}'" for one in shown)
        return " ".join('"' + one.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"' for one in shown)

    return quoted


def _pattern(written: Any, subject: Any) -> re.Pattern[str]:
    """A regular expression that surely ends soon: Go's never go back, Python's may."""
    wanted = text(written)
    is_simple = len(wanted) <= _MAX_PATTERN and len(_REPEAT.findall(wanted)) <= _MAX_REPEATS
    if not is_simple or _REPEATED_GROUP.search(wanted) or len(text(subject)) > _MAX_SUBJECT:
        raise Unknown(0, "a regular expression that may take long")
    try:
        return re.compile(wanted)
    except (re.error, OverflowError, RecursionError) as error:
        raise Unknown(0, "a regular expression that Python does not read") from error


def _replaced(pattern: Any, subject: Any, new: Any) -> str:
    """`${1}` and `$1` stand for groups."""
    form = re.sub(r"\$\{?(\d)\}?", r"\\g<\1>", text(new).replace("\\", "\\\\"))
    try:
        return bounded(_pattern(pattern, subject).sub(form, subject))
    except (re.error, IndexError) as error:
        raise Unknown(0, "a group that there is none of") from error


def _found(pattern: Any, subject: Any) -> str:
    found = _pattern(pattern, subject).search(subject)
    return found[0] if found else ""


def _base64(value: Any) -> str:
    return base64.b64encode(text(value).encode("utf-8", "replace")).decode()


def _from_base64(value: Any) -> str:
    try:
        return base64.b64decode(text(value), validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError) as error:
        raise Unknown(0, "no base64") from error


def _title(value: Any) -> str:
    return re.sub(r"(^|\s)(\S)", lambda found: found[1] + found[2].upper(), text(value))


def _parted(value: Any) -> list[str]:
    return [part for part in re.split(r"[-_.\s]+|(?<=[a-z0-9])(?=[A-Z])", text(value)) if part]


def version(written: Any) -> tuple[int, int, int, bool]:
    """A version as numbers, and whether it is a release. Raises Unknown."""
    found = _VERSION.fullmatch(text(written).strip())
    if not found:
        raise Unknown(0, "no version")
    return int(found[1]), int(found[2] or 0), int(found[3] or 0), found[4] is None


def semver_compare(constraint: Any, written: Any) -> bool:
    """Whether a version satisfies a constraint. Raises Unknown for what is not a list of comparisons."""
    have = version(written)
    return any(_satisfies(part, have) for part in text(constraint).split("||"))


def _satisfies(part: str, have: tuple[int, int, int, bool]) -> bool:
    place, comparisons = 0, []
    while place < len(part.rstrip()):
        found = _CONSTRAINT.match(part, place)
        if not found:
            raise Unknown(0, "a constraint of another form")
        comparisons.append((found[1] or "=", found[2]))
        place = found.end()
    allows_pre = any("-" in wanted for _, wanted in comparisons)
    return (have[3] or allows_pre) and all(_compares(sign, wanted, have) for sign, wanted in comparisons)


def _compares(sign: str, wanted: str, have: tuple[int, int, int, bool]) -> bool:
    numbers = wanted.partition("-")[0].partition("+")[0].lstrip("v").split(".")
    known = [int(number) for number in numbers if number.isdecimal()][:3]
    if not known:
        return True
    low = (*known, 0, 0)[:3]
    own = have[:3]
    if sign in ("=", "!=") and len(known) < 3:
        return (own[: len(known)] == tuple(known)) is (sign == "=")
    if sign in ("~", "~>"):
        return own >= low and own[: min(len(known), 2)] == low[: min(len(known), 2)]
    if sign == "^":
        return own >= low and own[0] == low[0]
    pre = (own, have[3]), (low, "-" not in wanted)
    return _SIGNS[sign](pre[0], pre[1])


_SIGNS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": lambda one, other: one[0] == other[0],
    "!=": lambda one, other: one[0] != other[0],
    **dict.fromkeys((">=", "=>"), lambda one, other: one >= other),
    **dict.fromkeys(("<=", "=<"), lambda one, other: one <= other),
    ">": lambda one, other: one > other,
    "<": lambda one, other: one < other,
}


def _divided(one: Any, other: Any) -> int:
    if whole(other) == 0:
        raise Unknown(0, "a division by zero")
    quotient = abs(whole(one)) // abs(whole(other))
    return quotient if (whole(one) < 0) is (whole(other) < 0) else -quotient


def _rounded(value: Any, digits: Any = 0) -> float:
    factor = 10 ** min(max(whole(digits), 0), 15)
    number = real(value) * factor
    return float(math.floor(number + 0.5) / factor) if math.isfinite(number) else number


def _product(*values: Any) -> int:
    made = 1
    for value in values:
        made = max(-(2**63), min(2**63, made * whole(value)))
    return made


TEXT_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "abbrev": lambda size, value: (
        text(value) if len(text(value)) <= whole(size) else _trunc(whole(size) - 3, value) + "..."
    ),
    "b64enc": _base64,
    "b64dec": _from_base64,
    "camelcase": lambda value: "".join(part[:1].upper() + part[1:] for part in _parted(value)),
    "cat": lambda *values: bounded(" ".join(go_text(value) for value in values if value is not None)),
    "contains": lambda part, value: text(part) in text(value),
    "hasPrefix": lambda part, value: text(value).startswith(text(part)),
    "hasSuffix": lambda part, value: text(value).endswith(text(part)),
    "indent": _indent,
    "initials": lambda value: "".join(part[0] for part in text(value).split()),
    "kebabcase": lambda value: "-".join(_parted(value)).lower(),
    "lower": lambda value: text(value).lower(),
    "nindent": lambda size, value: "\n" + _indent(size, value),
    "nospace": lambda value: "".join(text(value).split()),
    "plural": lambda one, many, count: one if whole(count) == 1 else many,
    "printf": lambda form, *values: printf(text(form), *values),
    "quote": _quote('"'),
    "regexFind": _found,
    "regexMatch": lambda pattern, value: _pattern(pattern, value).search(value) is not None,
    "regexReplaceAll": _replaced,
    "regexReplaceAllLiteral": lambda pattern, value, new: bounded(
        _pattern(pattern, value).sub(lambda _: text(new), value)
    ),
    "repeat": _repeat,
    "replace": _replace,
    "semverCompare": semver_compare,
    "sha1sum": lambda value: hashlib.sha1(text(value).encode("utf-8", "replace")).hexdigest(),  # noqa: S324 - as Sprig
    "sha256sum": lambda value: hashlib.sha256(text(value).encode("utf-8", "replace")).hexdigest(),
    "snakecase": lambda value: "_".join(_parted(value)).lower(),
    "squote": _quote("'"),
    "substr": _substr,
    "title": _title,
    "toString": lambda value: "<nil>" if value is None else go_text(value),
    "trim": lambda value: text(value).strip(),
    "trimAll": lambda letters, value: text(value).strip(text(letters)),
    "trimPrefix": lambda part, value: text(value).removeprefix(text(part)),
    "trimSuffix": lambda part, value: text(value).removesuffix(text(part)),
    "trunc": _trunc,
    "untitle": lambda value: text(value)[:1].lower() + text(value)[1:],
    "upper": lambda value: text(value).upper(),
    "add": lambda *values: sum(map(whole, values)),
    "add1": lambda value: whole(value) + 1,
    "atoi": whole,
    "ceil": lambda value: float(math.ceil(real(value))),
    "div": _divided,
    "float64": real,
    "floor": lambda value: float(math.floor(real(value))),
    "int": whole,
    "int64": whole,
    "max": lambda *values: max(map(whole, values)),
    "min": lambda *values: min(map(whole, values)),
    "mod": lambda one, other: whole(one) - whole(other) * _divided(one, other),
    "mul": _product,
    "round": _rounded,
    "sub": lambda one, other: whole(one) - whole(other),
}
