"""Values as Go prints them, as YAML and as JSON, and how large a value may be. Pure.

Sources: https://pkg.go.dev/fmt, and sigs.k8s.io/yaml for the form of `toYaml`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from provisioner.lint.go_templates.faults import Unknown
from provisioner.lint.scalars import read_plain

MAX_TEXT = 1_000_000
"""Greatest number of characters of any text that is made."""
MAX_VALUES = 50_000
"""Greatest number of values in what is printed, compared or copied, each counted as often as it is reached."""

_PLAIN = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./@%+=, -]*(?::[A-Za-z0-9_./@%+=,-]+)*")
_VERB = re.compile(r"%([-+# 0]*)(\d*)(?:\.(\d+))?([a-zA-Z%])")


def bounded(text: str) -> str:
    """The text, where it is not too long. Raises Unknown."""
    if len(text) > MAX_TEXT:
        raise Unknown(0, "a text grows too long")
    return text


def weighed(value: Any) -> Any:
    """The value, where it does not hold too much. Raises Unknown."""
    waiting, count = [value], 0
    while waiting:
        one = waiting.pop()
        count += 1 + (len(one) // 1000 if isinstance(one, str) else 0)
        if count > MAX_VALUES:
            raise Unknown(0, "a value grows too large")
        waiting.extend(one.values() if isinstance(one, dict) else one if isinstance(one, list) else ())
    return value


def go_text(value: Any) -> str:
    """A value as `%v` prints it; nothing for nil, as Helm has it."""
    return "" if value is None else _shown(weighed(value))


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, list):
        return f"[{' '.join(map(_shown, value))}]"
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{_shown(value[key])}' for key in sorted(value, key=str))}]"
    if isinstance(value, int):
        return str(value)
    raise Unknown(0, "a value of no known form is printed")


def _float(value: float) -> str:
    """As `%g`: with an exponent from a million on."""
    if value.is_integer() and abs(value) < 1e6:
        return str(int(value))
    digits = f"{value:.{_digits(value)}e}"
    mantissa, _, exponent = digits.partition("e")
    if math.isfinite(value) and (int(exponent) < -4 or int(exponent) >= 6):
        short = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
        return f"{short}e{exponent[0]}{exponent[1:].zfill(2)}"
    return repr(value)


def _digits(value: float) -> int:
    """How many digits behind the point of a mantissa tell a number from all others."""
    return next((digits for digits in range(17) if float(f"{value:.{digits}e}") == value), 17)


def printf(form: str, *values: Any) -> str:
    """What `printf` makes. Raises Unknown for verbs that charts hardly use."""
    given = iter(values)

    def filled(found: re.Match[str]) -> str:
        flags, width, precision, verb = found.groups()
        if verb == "%":
            return "%"
        value = next(given, None)
        text = _verb(verb, flags, precision, value)
        size = min(int(width or 0), 200)
        return text.ljust(size) if "-" in flags else text.rjust(size, "0" if "0" in flags and verb in "dfx" else " ")

    made = _VERB.sub(filled, form)
    if next(given, made) is not made:
        raise Unknown(0, "more arguments than verbs")
    return bounded(made)


def _verb(verb: str, flags: str, precision: str | None, value: Any) -> str:
    if verb in "sv":
        text = "<nil>" if value is None else go_text(value)
        return text[: int(precision)] if precision and verb == "s" else text
    if verb == "q" and isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if verb == "d" and isinstance(value, int) and not isinstance(value, bool):
        return f"{value:+d}" if "+" in flags else str(value)
    if verb == "f" and isinstance(value, float | int):
        return f"{value:.{min(int(precision or 6), 20)}f}"
    if verb in "xX" and isinstance(value, int):
        return format(value, verb)
    if verb == "t" and isinstance(value, bool):
        return go_text(value)
    raise Unknown(0, f"`%{verb}` of such a value")


def printed(*values: Any) -> str:
    """Values one behind the other, as `print` has it: with a blank between two that are no texts."""
    text = ""
    for place, value in enumerate(values):
        has_blank = place > 0 and not isinstance(value, str) and not isinstance(values[place - 1], str)
        text += (" " if has_blank else "") + go_text(value)
    return bounded(text)


def to_json(value: Any, *, indent: int | None = None) -> str:
    """A value as JSON with sorted keys."""
    separators = (",", ":") if indent is None else (",", ": ")
    return bounded(
        json.dumps(_plain(weighed(value)), indent=indent, sort_keys=True, separators=separators, default=_no_json)
    )


def _plain(value: Any) -> Any:
    """A value whose whole numbers are whole, as Go's JSON writes them."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e21 else value


def _no_json(_: Any) -> Any:
    raise Unknown(0, "a value of no known form is printed")


def to_yaml(value: Any) -> str:
    """A value as block YAML with sorted keys, without the last line end."""
    weighed(value)
    return bounded("\n".join(_lines(value)))


def _lines(value: Any) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key in sorted(value, key=str):
            yield from _entry(f"{_scalar(str(key))}:", value[key], is_key=True)
    elif isinstance(value, list) and value:
        for item in value:
            yield from _entry("-", item, is_key=False)
    else:
        yield from _scalar(value).split("\n")


def _entry(head: str, value: Any, *, is_key: bool) -> Iterator[str]:
    is_nested = isinstance(value, dict | list) and bool(value)
    if not is_nested:
        first, *rest = _scalar(value).split("\n")
        yield f"{head} {first}"
        yield from (f"  {line}" if line else line for line in rest)
    elif is_key:
        yield head
        indent = "" if isinstance(value, list) else "  "
        yield from (f"{indent}{line}" for line in _lines(value))
    else:
        first, *rest = _lines(value)
        yield f"- {first}"
        yield from (f"  {line}" for line in rest)


def _scalar(value: Any) -> str:
    if value is None:
        return "null"
    if not isinstance(value, str):
        return "{}" if value == {} else "[]" if value == [] else _shown(value)
    if "\n" in value.strip("\n") and value.isprintable() is False and not value.startswith((" ", "\n")):
        return f"|{_chomp(value)}\n" + value.rstrip("\n")
    if _PLAIN.fullmatch(value) and not value.endswith(" ") and value not in ("null", "~") and _is_text(value):
        return value
    return json.dumps(value, ensure_ascii=False)


def _chomp(text: str) -> str:
    return "-" if not text.endswith("\n") else "+" if text.endswith("\n\n") else ""


def _is_text(value: str) -> bool:
    reading = read_plain(value)
    return isinstance(reading.value, str) and not reading.doubt
