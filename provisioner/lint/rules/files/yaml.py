"""What is wrong with the YAML itself."""

from __future__ import annotations

from collections.abc import Iterator

from provisioner.domain.finding import Severity
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.files._oddities import hits
from provisioner.lint.world import World


@rule("yaml-malformed", Severity.ERROR)
def malformed(world: World) -> Iterator[Hit]:
    """A text is no YAML.

    Nothing in the document can be applied, and `kubectl apply -f` of the folder stops there. Tabs as indentation, a
    colon followed by a space inside unquoted text, an open quote, and misaligned keys are the usual causes.
    """
    yield from hits(world, "yaml-malformed")


@rule("yaml-duplicate-key", Severity.ERROR)
def duplicate_key(world: World) -> Iterator[Hit]:
    """A mapping has the same key twice.

    YAML forbids it. Strict readers (`kubectl` with server-side field validation, kustomize, Argo CD) refuse the file;
    lenient ones silently keep the last value, so one of the two settings is not in effect.
    """
    yield from hits(world, "yaml-duplicate-key")


@rule("yaml-braces-outside-quotes", Severity.ERROR)
def braces_outside_quotes(world: World) -> Iterator[Hit]:
    """A `{{ }}` stands where no template engine reads, and outside quotes, where YAML takes it for a mapping.

    In an ApplicationSet, a ClusterPolicy or any other plain manifest the file must be YAML before anything is filled
    in. `key: {{name}}` is a mapping with a mapping as key, which JSON does not know.
    """
    yield from hits(world, "yaml-braces-outside-quotes")


@rule("yaml-too-deep", Severity.ERROR)
def too_deep(world: World) -> Iterator[Hit]:
    """A document is nested deeper than any manifest is, or leads back into itself.

    API servers and most readers refuse such documents; here they are not read further, to keep time and memory bounded.
    """
    yield from hits(world, "yaml-too-deep")


@rule("yaml-too-large", Severity.ERROR)
def too_large(world: World) -> Iterator[Hit]:
    """A document holds more values than an API server takes.

    A million values are far beyond the 1.5 MB that etcd stores for an object. Aliases of aliases that multiply
    ("billion laughs") end here too.
    """
    yield from hits(world, "yaml-too-large")


@rule("yaml-unknown-tag", Severity.ERROR)
def unknown_tag(world: World) -> Iterator[Hit]:
    """A value carries a tag that Kubernetes clients do not know.

    Tags such as `!Ref` or `!vault` belong to other tools; `kubectl` and Argo CD do not resolve them.
    """
    yield from hits(world, "yaml-unknown-tag")
