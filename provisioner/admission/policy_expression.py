"""CEL as ValidatingAdmissionPolicies use it: expressions compiled once, evaluated over one request.

The functions are those that an API server of any supported version has too: the standard ones, strings and optional
values. `policy` is the only caller. Never reads files.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cel_expr_python import cel
from cel_expr_python.ext.ext_optional import ExtOptional
from cel_expr_python.ext.ext_strings import ExtStrings

ROOTS = ("object", "oldObject", "request", "params", "namespaceObject")
"""What an expression may name, beside its policy's variables."""

MAX_DEPTH = 64
"""Deeper values are refused unread: no Kubernetes object comes near, and the evaluator recurses."""

_VARIABLE = re.compile(r"\bvariables\.(\w+)")


class EvaluationError(Exception):
    """The expression has no value for this object; a policy that fails closed refuses it."""


@dataclass(frozen=True, slots=True)
class Request:
    """The names that expressions see, in the evaluator's own form: converted once, read by every expression."""

    activation: cel.Activation

    @classmethod
    def of(cls, names: Mapping[str, Any]) -> Request:
        """The request that binds each of `ROOTS`. Raises EvaluationError for values that CEL cannot hold."""
        try:
            return cls(_environment().Activation({name: _without_nulls(names[name], 0) for name in ROOTS}))
        except (RuntimeError, TypeError, ValueError) as error:
            raise EvaluationError(_first_line(error)) from error


@dataclass(frozen=True, slots=True)
class Expression:
    """One compiled expression."""

    program: cel.Expression

    @staticmethod
    @functools.lru_cache(maxsize=512)
    def compiled(text: str) -> Expression:
        """The expression in a text, its variables written out. Raises ValueError for what is no CEL."""
        try:
            return Expression(_environment().compile(text))
        except RuntimeError as error:
            raise ValueError(_first_line(error)) from error

    def value(self, request: Request) -> Any:
        """What the expression gives. Raises EvaluationError where it gives nothing."""
        try:
            result = self.program.eval(request.activation)
            value = result.plain_value()
        except (RuntimeError, TypeError, ValueError) as error:
            raise EvaluationError(_first_line(error)) from error
        if result.type() == cel.Type.ERROR:
            raise EvaluationError(_first_line(value))
        return value


def written_out(text: str, variables: Mapping[str, str]) -> str:
    """The text with every `variables.<name>` replaced by what it stands for: so each is read only where it is needed.

    Raises ValueError for an unknown name.
    """

    def text_of(match: re.Match[str]) -> str:
        if match[1] not in variables:
            raise ValueError(f"no variable above is called: {match[1]}")
        return f"({variables[match[1]]})"

    return _VARIABLE.sub(text_of, text)


@functools.cache
def _environment() -> cel.Env:
    return cel.NewEnv(variables=dict.fromkeys(ROOTS, cel.Type.DYN), extensions=[ExtStrings(), ExtOptional()])


def _without_nulls(value: Any, depth: int) -> Any:
    """The value as an API server hands it on: a field set to null is a field not set."""
    if isinstance(value, str | int | float):
        return value
    if depth > MAX_DEPTH:
        raise ValueError(f"nested deeper than {MAX_DEPTH}")
    if isinstance(value, Mapping):
        return {key: _without_nulls(item, depth + 1) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_without_nulls(item, depth + 1) for item in value]
    return value


def _first_line(error: object) -> str:
    return next(iter(str(error).splitlines()), "")[:200]
