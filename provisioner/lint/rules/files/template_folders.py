"""Folders of Jinja templates with a file of parameters: holes, filters and includes."""

from __future__ import annotations

from collections.abc import Iterator

from provisioner.domain.finding import Severity
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.files._oddities import hits
from provisioner.lint.world import World


@rule("template-hole-undeclared", Severity.ERROR)
def hole_undeclared(world: World) -> Iterator[Hit]:
    """A template reads a name that is none of its folder's parameters.

    Jinja prints nothing for it, or stops with `… is undefined`. The parameters stand beside the templates, in
    `params.yaml` or the like: as declarations under `parameters`, or as plain values; beside plain values only slips of
    one of their names are told. Names behind `is defined` or `default` are left alone.
    """
    yield from hits(world, "template-hole-undeclared")


@rule("template-parameter-unread", Severity.WARNING)
def parameter_unread(world: World) -> Iterator[Hit]:
    """A folder of templates declares a parameter that none of its templates reads.

    Whoever gives it believes that it does something.
    """
    yield from hits(world, "template-parameter-unread")


@rule("template-hole-unquoted", Severity.WARNING)
def hole_unquoted(world: World) -> Iterator[Hit]:
    """A template prints a text parameter as a plain YAML scalar.

    A name such as `123`, `on` or `1e3` becomes a number or a boolean, and text with `: ` or ` #` breaks the file.
    Between double quotes it stays what it is. Where parameters are plain values and nobody declares their types, only
    environment variables are looked at, whose `value` the API server refuses for anything but a text.
    """
    yield from hits(world, "template-hole-unquoted")


@rule("template-filter-unknown", Severity.ERROR)
def filter_unknown(world: World) -> Iterator[Hit]:
    """A template uses a filter that neither Jinja nor Ansible has, and whose name is close to one of theirs.

    Rendering stops with `No filter named …`. Filters of other names may be those of the program that renders.
    """
    yield from hits(world, "template-filter-unknown")


@rule("template-include-missing", Severity.ERROR)
def include_missing(world: World) -> Iterator[Hit]:
    """A template includes, imports or extends one that its folder does not have.

    Rendering stops with TemplateNotFound. Looked at are folders with a file of parameters; `ignore missing` and names
    that are put together are left alone.
    """
    yield from hits(world, "template-include-missing")
