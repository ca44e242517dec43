"""Commands whose options are the fields of a frozen type: for those with more than a function takes, or that share
some."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar, get_type_hints

import typer

OptionsT = TypeVar("OptionsT")


def add_command(app: typer.Typer, name: str, options: type[OptionsT], run: Callable[[OptionsT], None]) -> None:
    """Add a command that hands `run` its options. `options` is a dataclass of Annotated fields, shown before those
    that it inherits; the help is the text of `run`."""

    def command(**given: Any) -> None:
        run(options(**given))

    hints = get_type_hints(options, include_extras=True)
    told = inspect.signature(options)
    own_first = [field for kind in options.__mro__ for field in vars(kind).get("__annotations__", {})]
    named = [told.parameters[field].replace(annotation=hints[field]) for field in own_first]
    command.__signature__ = told.replace(parameters=named, return_annotation=None)  # type: ignore[attr-defined]
    command.__annotations__ = hints
    app.command(name, help=inspect.getdoc(run))(command)
