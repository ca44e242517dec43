"""API groups and versions of operators that current releases of them do not serve.

A definition in the folder wins.

Sources: the release notes that each entry names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from provisioner.domain.finding import Severity
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import text
from provisioner.lint.world import Object, World

_GONE: Mapping[str, tuple[str, str]] = {
    "keda.k8s.io/v1alpha1": ("keda.sh/v1alpha1", "KEDA 2.0"),
    "certmanager.k8s.io/v1alpha1": ("cert-manager.io/v1", "cert-manager 0.11"),
    "cert-manager.io/v1alpha2": ("cert-manager.io/v1", "cert-manager 1.6"),
    "cert-manager.io/v1alpha3": ("cert-manager.io/v1", "cert-manager 1.6"),
    "cert-manager.io/v1beta1": ("cert-manager.io/v1", "cert-manager 1.6"),
    "serving.kubeflow.org/v1alpha2": ("serving.kserve.io/v1beta1", "KServe 0.7"),
    "serving.kubeflow.org/v1beta1": ("serving.kserve.io/v1beta1", "KServe 0.7"),
    "karpenter.sh/v1alpha5": ("karpenter.sh/v1 (NodePool)", "Karpenter 0.33"),
    "kueue.x-k8s.io/v1alpha2": ("kueue.x-k8s.io/v1beta1", "Kueue 0.4"),
    "networking.x-k8s.io/v1alpha1": ("gateway.networking.k8s.io/v1", "Gateway API 0.4"),
}
_OLD: Mapping[str, tuple[str, str]] = {
    "karpenter.sh/v1beta1": ("karpenter.sh/v1", "Karpenter 1.1"),
    "external-secrets.io/v1beta1": ("external-secrets.io/v1", "External Secrets 0.17"),
    "external-secrets.io/v1alpha1": ("external-secrets.io/v1", "External Secrets 0.17"),
    "leaderworkerset.x-k8s.io/v1alpha1": ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet 0.3"),
    "ray.io/v1alpha1": ("ray.io/v1", "KubeRay 1.0"),
}


@rule("operator-version-gone", Severity.ERROR)
def operator_version_gone(world: World) -> Iterator[Hit]:
    """An object of an operator is written in an API group or version that was given up long ago.

    No release of the operator that runs on a supported Kubernetes serves it: `no matches for kind`.
    """
    yield from _outdated(world, _GONE)


@rule("operator-version-old", Severity.WARNING)
def operator_version_old(world: World) -> Iterator[Hit]:
    """An object of an operator is written in a version that newer releases replaced.

    They serve it for a while at most; after an upgrade of the operator it is `no matches for kind`.
    """
    yield from _outdated(world, _OLD)


def _outdated(world: World, versions: Mapping[str, tuple[str, str]]) -> Iterator[Hit]:
    defined = {(text(found.value, "spec", "group"), _kind(found)) for found in world.of_kind(_DEFINITION)}
    for found in world.objects:
        better = versions.get(found.api_version)
        if better and (found.group, found.kind) not in defined:
            message = f"reading apiVersion: replaced with {better[1]}: `{found.api_version}`"
            yield Hit(at=found, path=("apiVersion",), message=message, fix=f"write `{better[0]}`")


_DEFINITION = "CustomResourceDefinition"
_MADE_ELSEWHERE: Mapping[str, str] = {
    "ProjectMember": "list members in `Project.spec.members`",
    "Quota": "set `Project.spec.quotas`",
    "ProjectQuota": "set `Project.spec.quotas`",
    "AllowedNodeType": "set `Project.spec.allowedNodeTypes`",
    "AllowedTemplate": "set `Project.spec.allowedTemplates`",
}


def _kind(definition: Object) -> str | None:
    return text(definition.value, "spec", "names", "kind")


@rule("platform-kind-not-written", Severity.ERROR)
def platform_kind_not_written(world: World) -> Iterator[Hit]:
    """An object of the Platform has a kind that cannot be written.

    Members, quotas, allowed templates and allowed node types are fields of the Project; there are no objects of such
    kinds in `management.loft.sh/v1`.
    """
    for found in world.objects:
        instead = _MADE_ELSEWHERE.get(found.kind) if found.group in ("management.loft.sh", "storage.loft.sh") else None
        if instead:
            message = f"reading kind: the Platform takes no such object: `{found.kind}`"
            yield Hit(at=found, path=("kind",), message=message, fix=instead)
