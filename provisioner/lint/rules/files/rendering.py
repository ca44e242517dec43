"""What is not rendered, and so not checked."""

from __future__ import annotations

from collections.abc import Iterator

from provisioner.domain.finding import Severity
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.files._oddities import hits
from provisioner.lint.world import World


@rule("not-rendered", Severity.INFO)
def not_rendered(world: World) -> Iterator[Hit]:
    """A chart, a folder of templates or a kustomization is not rendered as a whole, so not all of it is checked.

    Nothing found there does not mean that nothing is wrong. A chart that depends on others, a function without a fixed
    answer, a filter of the program that renders, a base that is fetched from elsewhere, too many steps: the message
    names what it is. What `helm template`, `kustomize build` or the program itself prints can be linted in its place.
    """
    yield from hits(world, "not-rendered")
