"""What is refused of a catalog folder: tiers, runtimes, models, and the templates of tiers."""

from __future__ import annotations

import json
from collections.abc import Iterator

from provisioner.domain.finding import Severity
from provisioner.lint.rule import Hit, Spot, rule
from provisioner.lint.rules.files._oddities import hits
from provisioner.lint.template_texts import doubtful_lines
from provisioner.lint.world import World

_YAML = (".yaml", ".yml")


@rule("catalog-refused", Severity.ERROR)
def catalog_refused(world: World) -> Iterator[Hit]:
    """A tier, a runtime or a model of a catalog folder is refused.

    The folder is loaded as `--catalog` loads it. Unknown fields, options that exclude each other and values out of
    bounds end it, for all commands that name the folder.
    """
    yield from hits(world, "catalog-refused")


@rule("template-refused", Severity.ERROR)
def template_refused(world: World) -> Iterator[Hit]:
    """A template of a tier or of a runtime cannot be compiled.

    A name that nobody defines, a parameter that no template reads, a value outside quotes, a branch on a value that is
    only known later, an include that is missing or leads back to itself: publishing the tier, or planning an endpoint
    of it, would refuse it. Compiled are what every tier publishes and all that its reference cases bring.
    """
    yield from hits(world, "template-refused")


@rule("template-syntax", Severity.ERROR)
def template_syntax(world: World) -> Iterator[Hit]:
    """A template is no Jinja.

    An action or a block is not closed, or an expression is broken; nothing that includes it can be rendered. Every
    file that ends in `.j2` is read.
    """
    yield from hits(world, "template-syntax")


@rule("template-scalar-ambiguous", Severity.WARNING)
def template_scalar_ambiguous(world: World) -> Iterator[Hit]:
    """A template for YAML writes a plain `yes`, `on` or `0644`, which readers understand differently.

    What is rendered is read as YAML 1.1 by `kubectl` and Helm, which make a boolean or another number of it, and as
    YAML 1.2 by others, which keep a text. Looked at are Jinja's `*.yaml.j2` and the templates of charts; file modes are
    left out.
    """
    yield from hits(world, "template-scalar-ambiguous")
    for chart in world.charts:
        for template in chart.templates:
            for line, written, reading in doubtful_lines(template.text) if template.file.endswith(_YAML) else ():
                value = json.dumps(reading.value)
                message = f"reading template: `{written}` is {value} to some readers"
                fix = f'write `"{written}"` for the text, else `{value}`'
                yield Hit(at=Spot(template.file, line), message=message, fix=fix)


@rule("template-includes-itself", Severity.ERROR)
def template_includes_itself(world: World) -> Iterator[Hit]:
    """A template includes, imports or extends itself, straight or through others.

    Rendering never ends: Jinja stops with a RecursionError. An include that stands under a condition may end and is
    left alone.
    """
    yield from hits(world, "template-includes-itself")
