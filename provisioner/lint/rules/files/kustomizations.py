"""What is wrong with kustomizations."""

from __future__ import annotations

from collections.abc import Iterator

from provisioner.domain.finding import Severity
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.files._oddities import hits
from provisioner.lint.world import World


@rule("kustomization-missing-resource", Severity.ERROR)
def missing_resource(world: World) -> Iterator[Hit]:
    """A kustomization names a file or folder that is not there.

    `kustomize build` stops (`accumulating resources … no such file`), and so does an Argo CD Application of that
    folder.
    """
    yield from hits(world, "kustomization-missing-resource")


@rule("kustomization-cycle", Severity.ERROR)
def cycle(world: World) -> Iterator[Hit]:
    """A kustomization builds upon itself, directly or through others.

    `kustomize build` refuses it: `cycle detected`.
    """
    yield from hits(world, "kustomization-cycle")


@rule("kustomization-patch-matches-nothing", Severity.ERROR)
def patch_matches_nothing(world: World) -> Iterator[Hit]:
    """A patch of a kustomization is about an object that it does not build.

    A strategic merge patch without a match ends the build with `no matches for Id`; a patch whose `target` selects
    nothing is left out without a word. Either way what it says is not in effect.
    """
    yield from hits(world, "kustomization-patch-matches-nothing")


@rule("kustomization-unknown-field", Severity.ERROR)
def unknown_field(world: World) -> Iterator[Hit]:
    """A kustomization has a field that kustomize does not know.

    `kustomize build` refuses the file: `invalid Kustomization: json: unknown field`.
    """
    yield from hits(world, "kustomization-unknown-field")
