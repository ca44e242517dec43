"""The one way from a rendered object to a Pulumi resource. Every component of every stack goes through `register`.

The provider's plugin takes any kind by its type token, so no generated classes are needed (30 MB and 800 files less).
Logical names follow from kind, namespace and name, and stay when an object moves to another file or component.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pulumi

PROVIDER_VERSION = "4.34.2"
"""Of Pulumi's Kubernetes provider; the CLI fetches it where it is not installed."""

GUARDED = frozenset({"Namespace", "NodeProvider", "Project", "VirtualClusterInstance", "VirtualClusterTemplate"})
"""Kinds whose replacement or removal takes tenants along: protected until somebody says `pulumi state unprotect`."""

SHARED = frozenset({"NodeProvider"})
"""Kinds that several stacks publish alike, because they come from the site alone. Each stack owns the fields it applies
and leaves the object when it goes: nodes of other tiers hang on it."""

LEFT = frozenset({("NetworkPolicy", "default-deny")})
"""Objects that our own admission policies keep in place while their namespace stands: it takes them along."""

FIRST = frozenset({"CustomResourceDefinition", "Namespace", "User"})
"""Kinds that others of the same group cannot be made without."""


def logical_name(manifest: Mapping[str, Any]) -> str:
    """`Kind/namespace/name`, without the middle for what has no namespace."""
    metadata = manifest["metadata"]
    return "/".join(part for part in (manifest["kind"], metadata.get("namespace"), metadata["name"]) if part)


def type_token(manifest: Mapping[str, Any]) -> str:
    """The provider's token of a kind; a shared one is applied as a patch."""
    version = str(manifest["apiVersion"])
    kind = f"{manifest['kind']}Patch" if manifest["kind"] in SHARED else manifest["kind"]
    return f"kubernetes:{version if '/' in version else f'core/{version}'}:{kind}"


def register(
    manifests: Iterable[Mapping[str, Any]],
    *,
    parent: pulumi.Resource,
    provider: pulumi.ProviderResource,
    after: Sequence[pulumi.Resource] = (),
    within: str = "",
) -> tuple[pulumi.CustomResource, ...]:
    """Make a resource of each object, all of them after `after`, and namespaces and definitions before the others.

    Values of a manifest may be Outputs. An object that was imported without a parent is taken over as it is. `within`
    stands before logical names in a stack that reaches several clusters.
    """
    objects = sorted(manifests, key=lambda manifest: manifest["kind"] not in FIRST)
    made: list[pulumi.CustomResource] = []
    first: list[pulumi.Resource] = list(after)
    for manifest in objects:
        kind = manifest["kind"]
        options = pulumi.ResourceOptions(
            parent=parent,
            provider=provider,
            depends_on=list(after) if kind in FIRST else first,
            protect=kind in GUARDED,
            retain_on_delete=kind in SHARED or (kind, manifest["metadata"]["name"]) in LEFT,
            aliases=[pulumi.Alias(parent=pulumi.ROOT_STACK_RESOURCE)],
        )
        name = "/".join(part for part in (within, logical_name(manifest)) if part)
        resource = pulumi.CustomResource(type_token(manifest), name, _properties(manifest), options)
        made.append(resource)
        if kind in FIRST:
            first.append(resource)
    return tuple(made)


def kubernetes_provider(context: str, kubeconfig: pulumi.Output[str] | None) -> pulumi.ProviderResource:
    """The provider for one control plane cluster, by its context in the kubeconfig; None reads `KUBECONFIG`.

    The cluster is known by that name alone: new credentials or another address replace nothing. Secrets and ConfigMaps
    are changed where they stand.
    """
    properties: dict[str, Any] = {
        "clusterIdentifier": context,
        "context": context,
        "enableConfigMapMutable": "true",
        "enableSecretMutable": "true",
    }
    if kubeconfig is not None:
        properties["kubeconfig"] = kubeconfig
    options = pulumi.ResourceOptions(version=PROVIDER_VERSION)
    return pulumi.ProviderResource("kubernetes", context, properties, options)


def _properties(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest, told to win against another stack's older fields where several own one object."""
    if manifest["kind"] not in SHARED:
        return dict(manifest)
    metadata = manifest["metadata"]
    annotations = {**metadata.get("annotations", {}), "pulumi.com/patchForce": "true"}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}
