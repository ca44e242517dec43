"""What is refused of a catalog folder: tiers, runtimes, models, and the templates of tiers."""

from __future__ import annotations

from collections.abc import Iterator

from provisioner.domain.finding import Severity
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.files._oddities import hits
from provisioner.lint.world import World


@rule("catalog-refused", Severity.ERROR)
def catalog_refused(world: World) -> Iterator[Hit]:
    """A tier, a runtime or a model of a catalog folder is refused.

    The folder is loaded as `--catalog` loads it. Unknown fields, options that exclude each other and values out of
    bounds end it, for all commands that name the folder.
    """
    yield from hits(world, "catalog-refused")


@rule("template-refused", Severity.ERROR)
def template_refused(world: World) -> Iterator[Hit]:
    """A template of a tier cannot be compiled.

    A name that nobody defines, a parameter that no template reads, a value outside quotes, a branch on a value that is
    only known later, an include that is missing or leads back to itself: publishing the tier would refuse it.
    """
    yield from hits(world, "template-refused")


@rule("template-syntax", Severity.ERROR)
def template_syntax(world: World) -> Iterator[Hit]:
    """A template of a tier or a runtime is no Jinja.

    An action or a block is not closed, or an expression is broken; nothing that includes it can be rendered.
    """
    yield from hits(world, "template-syntax")


@rule("template-includes-itself", Severity.ERROR)
def template_includes_itself(world: World) -> Iterator[Hit]:
    """A template includes, imports or extends itself, straight or through others.

    Rendering never ends: Jinja stops with a RecursionError. An include that stands under a condition may end and is
    left alone.
    """
    yield from hits(world, "template-includes-itself")
