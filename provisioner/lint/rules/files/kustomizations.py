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


@rule("kustomization-patch-path-missing", Severity.ERROR)
def patch_path_missing(world: World) -> Iterator[Hit]:
    """An operation of a JSON patch changes what is not there.

    `replace` and `remove` need the field itself, `add` what is around it (RFC 6902). `kustomize build` stops: `doc is
    missing path`.
    """
    yield from hits(world, "kustomization-patch-path-missing")


@rule("kustomization-reference-not-renamed", Severity.ERROR)
def reference_not_renamed(world: World) -> Iterator[Hit]:
    """A kustomization renames an object, and an object that names it is of a kind in which kustomize follows no names.

    namePrefix, nameSuffix and the hashes of generators change names, and kustomize follows them in built-in kinds only,
    not in a ScaledObject's target, a LeaderWorkerSet's volumes or a route's parents. The old name leads nowhere.
    `configurations` with `nameReference` teach it more.
    """
    yield from hits(world, "kustomization-reference-not-renamed")


@rule("kustomization-kind-misplaced", Severity.ERROR)
def kind_misplaced(world: World) -> Iterator[Hit]:
    """A kustomization lists a Component under `resources`, or another kustomization under `components`.

    `kustomize build` stops: `expected kind != 'Component'`, or `expected kind: 'Component'`. Components change what the
    kustomization around them has; resources are built by themselves.
    """
    yield from hits(world, "kustomization-kind-misplaced")


@rule("kustomization-merges-nothing", Severity.ERROR)
def merges_nothing(world: World) -> Iterator[Hit]:
    """A generator shall merge into, or replace, a ConfigMap or Secret that nothing before it makes.

    `kustomize build` stops: `id … does not exist; cannot merge or replace`.
    """
    yield from hits(world, "kustomization-merges-nothing")


@rule("kustomization-remote-unpinned", Severity.WARNING)
def remote_unpinned(world: World) -> Iterator[Hit]:
    """A kustomization builds upon a repository without naming a tag or commit.

    Two builds of one commit of yours differ, and a push of strangers is rolled out by the next sync. Name one by
    `?ref=`.
    """
    yield from hits(world, "kustomization-remote-unpinned")


@rule("kustomization-literal-malformed", Severity.ERROR)
def literal_malformed(world: World) -> Iterator[Hit]:
    """A literal of a generator has no `=`.

    `kustomize build` stops: `invalid literal source …, expected key=value`.
    """
    yield from hits(world, "kustomization-literal-malformed")


@rule("kustomization-unknown-field", Severity.ERROR)
def unknown_field(world: World) -> Iterator[Hit]:
    """A kustomization has a field that kustomize does not know.

    `kustomize build` refuses the file: `invalid Kustomization: json: unknown field`.
    """
    yield from hits(world, "kustomization-unknown-field")


@rule("kustomization-image-unused", Severity.WARNING)
def image_unused(world: World) -> Iterator[Hit]:
    """A kustomization sets tag, digest or name of an image that nothing it builds uses.

    `kustomize build` says nothing: the objects keep the tag that they have, and the one that was to be rolled out is
    not. `name` is the image as the resources write it, without tag.
    """
    yield from hits(world, "kustomization-image-unused")


@rule("kustomization-replicas-unmatched", Severity.ERROR)
def replicas_unmatched(world: World) -> Iterator[Hit]:
    """A kustomization sets the replicas of a workload that it does not build.

    `kustomize build` stops: `resource with name … does not match a config`.
    """
    yield from hits(world, "kustomization-replicas-unmatched")


@rule("kustomization-resource-twice", Severity.ERROR)
def resource_twice(world: World) -> Iterator[Hit]:
    """A kustomization lists one resource twice, or an object that what it builds upon has already.

    `kustomize build` stops: `may not add resource with an already registered id`. An overlay that wants an object of
    its base otherwise makes a patch of it.
    """
    yield from hits(world, "kustomization-resource-twice")


@rule("kustomization-patch-adds-container", Severity.ERROR)
def patch_adds_container(world: World) -> Iterator[Hit]:
    """A patch names a container that the workload does not have, and gives it no image.

    Containers are merged by name: another name adds a second container, which the API server refuses for its missing
    image, and the one that was to be changed stays as it is.
    """
    yield from hits(world, "kustomization-patch-adds-container")


@rule("kustomization-file-unlisted", Severity.WARNING)
def file_unlisted(world: World) -> Iterator[Hit]:
    """A manifest stands beside a kustomization that does not name it, and no other one does.

    `kustomize build` and an Argo CD Application of the folder leave it out without a word. A file that the
    kustomization mentions, in a comment too, is left alone.
    """
    yield from hits(world, "kustomization-file-unlisted")


@rule("kustomization-common-labels", Severity.WARNING)
def common_labels(world: World) -> Iterator[Hit]:
    """A kustomization uses commonLabels, which also changes selectors.

    The selector of a live Deployment or StatefulSet is immutable: adding or changing a label is refused until the
    workload is deleted, and an engine with it. The field is deprecated; `labels` leaves selectors alone unless told to.
    """
    yield from hits(world, "kustomization-common-labels")


@rule("kustomization-field-deprecated", Severity.WARNING)
def field_deprecated(world: World) -> Iterator[Hit]:
    """A kustomization uses a field that kustomize has given up for another one.

    `bases`, `patchesStrategicMerge`, `patchesJson6902`, `vars` and `imageTags` warn today and are not part of version 1
    of the file. `kustomize edit fix` rewrites most of them.
    """
    yield from hits(world, "kustomization-field-deprecated")
