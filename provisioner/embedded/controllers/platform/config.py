"""The part of a tenant cluster's vcluster.yaml that the embedded control plane acts on, with the rules that the real
one enforces in code and not in its schema.

A rule about keys that the Platform reads itself (`deploy.argoCD`) shows as TemplateResolved False; one about keys of
the chart shows as a control plane that does not come up. Hence the two errors. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from provisioner.embedded.controllers.api import Json
from provisioner.embedded.controllers.templating import TemplateError

_OPERATORS = ("", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_VALUELESS = ("Exists", "DoesNotExist")


class ChartError(Exception):
    """The tenant's control plane would refuse this vcluster.yaml and crash."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True)


class Requirement(_Part):
    """One item of a node type selector."""

    name: str = Field(default="", alias="property")
    operator: str = ""
    value: str | None = None
    values: tuple[str, ...] = ()

    @property
    def wanted(self) -> tuple[str, ...]:
        """The values, whichever way they were written."""
        return (self.value,) if self.value is not None else self.values


class Disruption(_Part):
    """When an empty node of a dynamic pool is given back."""

    consolidate_after: str = "30s"


class Pool(_Part):
    """A node pool: a `quantity` makes it static, none dynamic."""

    name: str = ""
    quantity: int | None = None
    node_type_selector: tuple[Requirement, ...] = ()
    limits: dict[str, str] = Field(default_factory=dict)
    disruption: Disruption = Disruption()
    taints: tuple[dict[str, Any], ...] = ()
    node_labels: dict[str, str] = Field(default_factory=dict)
    profile: str | None = None


class AutoNodes(_Part):
    """The pools of one provider."""

    provider: str = ""
    static: tuple[Pool, ...] = ()
    dynamic: tuple[Pool, ...] = ()


class _PrivateNodes(_Part):
    enabled: bool = False
    default_profile: str | None = None
    auto_nodes: tuple[AutoNodes, ...] = ()


class ApplicationReference(_Part):
    """An application template by name, with parameters."""

    name: str = ""
    parameters: dict[str, Any] = Field(default_factory=dict)


class Application(_Part):
    """One entry of `deploy.argoCD.applications`."""

    name: str = ""
    display_name: str = ""
    target: str = ""
    template: ApplicationReference | None = None
    inline: dict[str, Any] | None = None


class _Applications(_Part):
    applications: tuple[Application, ...] = ()


class _Deploy(_Part):
    argo_cd: _Applications = Field(default=_Applications(), alias="argoCD")


class _Connector(_Part):
    enabled: bool = False
    connector: str = ""


class _Integrations(_Part):
    argo_cd: _Connector = Field(default=_Connector(), alias="argoCD")
    metrics_server: _Connector = _Connector()
    cert_manager: _Connector = _Connector()
    external_secrets: _Connector = _Connector()
    istio: _Connector = _Connector()
    kube_virt: _Connector = _Connector()


class TenantConfig(_Part):
    """A tenant cluster's vcluster.yaml as far as it is read here."""

    private_nodes: _PrivateNodes = _PrivateNodes()
    integrations: _Integrations = _Integrations()
    deploy: _Deploy = _Deploy()
    control_plane: dict[str, Any] = Field(default_factory=dict)
    sync: dict[str, Any] = Field(default_factory=dict)

    def pools(self) -> Iterable[tuple[str, Pool]]:
        """Each pool with its provider."""
        if self.private_nodes.enabled:
            for entry in self.private_nodes.auto_nodes:
                yield from ((entry.provider, pool) for pool in (*entry.static, *entry.dynamic))


def parse_config(values: Json) -> TenantConfig:
    """The typed configuration. ChartError for what the chart's schema would refuse."""
    try:
        return TenantConfig.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        raise ChartError(f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}") from error


def check_applications(config: TenantConfig) -> None:
    """The Platform's own rules. TemplateError `ErrorModifyingTemplate`."""
    connector, applications = config.integrations.argo_cd, config.deploy.argo_cd.applications
    if applications and not (connector.enabled and connector.connector):
        raise TemplateError(
            "ErrorModifyingTemplate", "argoCD integration must be enabled and have a connector to deploy applications"
        )
    seen: set[str] = set()
    for application in applications:
        problem = _application_problem(application, seen)
        if problem:
            raise TemplateError("ErrorModifyingTemplate", f"deploy.argoCD.applications: {problem}")
        seen.add(application.name or application.display_name)


def _application_problem(application: Application, seen: set[str]) -> str | None:
    name = application.name or application.display_name
    if not name:
        return "name or displayName is required"
    if name in seen:
        return f"name is used twice: {name}"
    if application.target not in ("", "vCluster", "host"):
        return f"invalid target, allowed are vCluster and host: {application.target}"
    if (application.template is None) == (application.inline is None):
        return f"either template or inline is required: {name}"
    if application.template is not None and not application.template.name:
        return f"template.name is required: {name}"
    return None


def check_chart(config: TenantConfig) -> None:
    """The chart's rules. ChartError."""
    plane = config.control_plane
    if _find(plane, "endpoint") and not config.private_nodes.enabled:
        raise ChartError("endpoint is only supported in private nodes mode")
    stores = ("etcd.embedded.enabled", "etcd.deploy.enabled", "database.external.enabled")
    if (_find(plane, "statefulSet.highAvailability.replicas") or 1) > 1 and not any(
        _find(plane, f"backingStore.{store}") for store in stores
    ):
        raise ChartError("embedded database is not supported with multiple replicas")
    if _find(config.sync, "fromHost.gateways.enabled") and not _find(config.sync, "fromHost.gateways.mappings.byName"):
        raise ChartError("sync.fromHost.gateways.mappings.byName must not be empty")
    _check_nodes(config)


def _find(values: Json, path: str) -> Any:
    """The value at a dotted path, None where there is nothing."""
    found: Any = values
    for part in path.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _check_nodes(config: TenantConfig) -> None:
    if config.private_nodes.enabled:
        integrations = config.integrations
        for name in ("metrics_server", "cert_manager", "external_secrets", "istio", "kube_virt"):
            if getattr(integrations, name).enabled:
                raise ChartError(f"{to_camel(name)} integration is not supported in private nodes mode")
    providers: set[str] = set()
    names: set[str] = set()
    for entry in config.private_nodes.auto_nodes:
        if not entry.provider:
            raise ChartError("node pool provider is required")
        if entry.provider in providers:
            raise ChartError(f"node pool provider {entry.provider} is already used")
        providers.add(entry.provider)
        for pool in (*entry.static, *entry.dynamic):
            _check_pool(pool, names)
        for pool in entry.static:
            if pool.quantity is None or pool.quantity < 0:
                raise ChartError(f"node pool {pool.name} quantity must be 0 or more")


def _check_pool(pool: Pool, names: set[str]) -> None:
    if not pool.name:
        raise ChartError("node pool name is required")
    if pool.name in names:
        raise ChartError(f"node pool name {pool.name} is already used")
    names.add(pool.name)
    for requirement in pool.node_type_selector:
        if not requirement.name:
            raise ChartError(f"node pool {pool.name}: requirement property is required")
        if requirement.operator not in _OPERATORS:
            raise ChartError(f"node pool {pool.name}: invalid operator {requirement.operator}")
        if requirement.value is not None and requirement.values:
            raise ChartError(f"node pool {pool.name}: requirement value and values exclude each other")
        if requirement.operator in _VALUELESS and requirement.wanted:
            raise ChartError(f"node pool {pool.name}: no requirement value is allowed for {requirement.operator}")
        if requirement.operator not in _VALUELESS and not requirement.wanted:
            raise ChartError(f"node pool {pool.name}: requirement value or values is required")
