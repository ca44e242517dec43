"""What Applications deliver, joined over files: the two ledger rows about order and belonging together."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.lint.worlds import lint

_APPLICATION = """\
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata:
  name: {name}
  namespace: argocd
  finalizers: [resources-finalizer.argocd.argoproj.io]
spec:
  project: default
  source: {{repoURL: "https://git.example.com/acme/models.git", targetRevision: v1.0.0, path: {path}}}
  destination: {{server: "https://kubernetes.default.svc", namespace: inference}}
"""
_DEFINITION = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: endpoints.serving.example.com
  annotations: {{argocd.argoproj.io/sync-wave: "{wave}"}}
spec:
  group: serving.example.com
  scope: Namespaced
  names: {{kind: Endpoint, plural: endpoints, singular: endpoint, listKind: EndpointList}}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {{openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}
"""
_CUSTOM = """\
apiVersion: serving.example.com/v1
kind: Endpoint
metadata:
  name: chat
  namespace: inference
  annotations: {{argocd.argoproj.io/sync-wave: "{wave}"}}
"""
_SERVICE = """\
apiVersion: v1
kind: Service
metadata: {name: chat, namespace: inference}
spec: {selector: {app: chat}, ports: [{name: http, port: 80}]}
"""
_ROUTE = """\
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: chat, namespace: inference}
spec:
  parentRefs: [{name: public, namespace: gateways}]
  rules: [{timeouts: {request: 0s}, backendRefs: [{name: chat, port: 80}]}]
"""


def _found(folder: Path, files: Mapping[str, str]) -> set[str]:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return {finding.rule for finding in lint(folder)}


def test_a_custom_object_whose_definition_another_application_delivers_is_found(tmp_path: Path) -> None:
    """Ledger: ARG-04."""
    files = {
        "a.yaml": _APPLICATION.format(name="a", path="apps/a"),
        "b.yaml": _APPLICATION.format(name="b", path="apps/b"),
        "apps/a/crd.yaml": _DEFINITION.format(wave=-1),
        "apps/b/endpoint.yaml": _CUSTOM.format(wave=1),
    }
    assert "application-needs-definition-of-another" in _found(tmp_path, files)


def test_definition_and_object_in_one_application_with_rising_waves_are_fine(tmp_path: Path) -> None:
    """Ledger: ARG-04."""
    files = {
        "a.yaml": _APPLICATION.format(name="a", path="apps/a"),
        "apps/a/crd.yaml": _DEFINITION.format(wave=-1),
        "apps/a/endpoint.yaml": _CUSTOM.format(wave=1),
    }
    assert not _found(tmp_path, files)


def test_definition_in_a_later_wave_than_its_object_is_found(tmp_path: Path) -> None:
    """Ledger: ARG-04."""
    files = {
        "a.yaml": _APPLICATION.format(name="a", path="apps/a"),
        "apps/a/crd.yaml": _DEFINITION.format(wave=2),
        "apps/a/endpoint.yaml": _CUSTOM.format(wave=1),
    }
    assert "sync-wave-order" in _found(tmp_path, files)


def test_an_application_that_delivers_a_route_alone_is_found(tmp_path: Path) -> None:
    """Ledger: ARG-06."""
    files = {
        "a.yaml": _APPLICATION.format(name="a", path="apps/a"),
        "b.yaml": _APPLICATION.format(name="b", path="apps/b"),
        "apps/a/service.yaml": _SERVICE,
        "apps/b/route.yaml": _ROUTE,
    }
    assert "application-with-routes-only" in _found(tmp_path, files)


def test_a_route_beside_its_service_is_fine(tmp_path: Path) -> None:
    """Ledger: ARG-06."""
    files = {
        "app.yaml": _APPLICATION.format(name="a", path="apps/a"),
        "apps/a/service.yaml": _SERVICE,
        "apps/a/route.yaml": _ROUTE,
    }
    assert "application-with-routes-only" not in _found(tmp_path, files)


def test_each_element_of_an_application_set_leads_to_its_folder(tmp_path: Path) -> None:
    application_set = """\
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: routes, namespace: argocd}
spec:
  goTemplate: true
  goTemplateOptions: [missingkey=error]
  syncPolicy: {preserveResourcesOnDeletion: true}
  generators: [{list: {elements: [{tenant: acme}, {tenant: umbrella}]}}]
  template:
    metadata: {name: "routes-{{ .tenant }}"}
    spec:
      project: default
      source:
        repoURL: https://git.example.com/acme/models.git
        targetRevision: v1.0.0
        path: "tenants/{{ .tenant }}"
      destination: {name: in-cluster, namespace: inference}
"""
    files = {"set.yaml": application_set, "tenants/acme/route.yaml": _ROUTE, "tenants/umbrella/route.yaml": _ROUTE}
    assert "application-with-routes-only" in _found(tmp_path, files)


def test_an_overlay_is_judged_as_kustomize_builds_it(tmp_path: Path) -> None:
    scaler = """\
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: chat}
spec:
  scaleTargetRef: {name: chat}
  triggers: [{type: cron, metadata: {timezone: UTC, start: 0 8 * * *, end: 0 18 * * *, desiredReplicas: "2"}}]
"""
    workload = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: chat}
spec:
  selector: {matchLabels: {app: chat}}
  template:
    metadata: {labels: {app: chat}}
    spec: {containers: [{name: chat, image: "registry.example.com/chat:1.0.0"}]}
"""
    application = _APPLICATION.format(name="a", path="overlays/prod")
    files = {
        "app.yaml": f"{application}  syncPolicy: {{automated: {{selfHeal: true}}}}\n",
        "base/kustomization.yaml": "resources: [chat.yaml, scaler.yaml]\n",
        "base/chat.yaml": workload,
        "base/scaler.yaml": scaler,
        "overlays/prod/kustomization.yaml": "resources: [../../base]\nreplicas: [{name: chat, count: 3}]\n",
    }
    assert "sync-undoes-scaling" in _found(tmp_path, files)
