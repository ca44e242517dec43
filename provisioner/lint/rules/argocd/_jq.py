"""Whether a jq expression can be one: brackets, quotes, and what it ends with. Pure; no rules stand here.

It knows no grammar, only what a slip of the keyboard breaks; what it does not understand is fine.
"""

from __future__ import annotations

import re

_PAIRS = {")": "(", "]": "[", "}": "{"}
_STRING = re.compile(r"\"(?:[^\"\\]|\\.)*\"")


def jq_trouble(expression: str) -> tuple[str, str] | None:
    """What is wrong with a jq path expression and how it is right, None where nothing is seen."""
    bare = _STRING.sub("s", expression)
    if '"' in bare:
        return "a quote is not closed", "close the quote"
    if "'" in bare:
        return "jq knows double quotes only", "write texts in double quotes"
    open_brackets: list[str] = []
    outside = ""
    for letter in bare:
        if letter in _PAIRS.values():
            open_brackets.append(letter)
        elif letter in _PAIRS and (not open_brackets or open_brackets.pop() != _PAIRS[letter]):
            return f"a `{letter}` closes nothing", "remove it, or open it before"
        elif not open_brackets:
            outside += letter
    if open_brackets:
        return f"a `{open_brackets[-1]}` is not closed", "close it"
    if re.search(r"[|,=<>+]\s*$", bare):
        return "it ends in the middle", "finish it, or remove the last sign"
    if re.search(r"==|!=|<=|>=", outside):
        return "it compares instead of leading to a field", "choose the item with `select(…)`"
    return None
