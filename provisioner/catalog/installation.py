"""Tenantry's own installation on the control plane cluster: what the stack `platform` has to be told.

Part of the Site. Rendering reads it; nothing that serves endpoints does. It names Secrets' places, never secrets.
"""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field

from provisioner.catalog.entry import Entry

Ports = tuple[Annotated[int, Field(ge=1, le=65535)], ...]


class PlatformConnection(Entry):
    """vCluster Platform: where it is, and what its chart is told."""

    url: Annotated[str, Field(pattern=r"^https://[^/\s]+$", description="its address, without a path")]
    control_plane: Annotated[
        str | None, Field(description="control plane cluster that it runs in; null where the site has one")
    ] = None
    ranges: Annotated[tuple[str, ...], Field(description="its addresses, where they lie outside the cluster")] = ()
    namespaces: Annotated[
        tuple[str, ...],
        Field(description="namespaces of who answers at its address inside the cluster: its own, an ingress's"),
    ] = ()
    pod_ports: Annotated[
        Ports,
        Field(description="ports of their pods; none means the address's, and 10000 above it where it is below 1024"),
    ] = ()
    audit_level: Annotated[
        int, Field(ge=1, le=4, description="1 records what changes, 4 every request with its answer")
    ] = 1
    audit_database: Annotated[
        bool, Field(description="whether its audit log goes to a database; replicas keep no common one otherwise")
    ] = False
    database: Annotated[
        bool,
        Field(description="whether its state goes to a database and not to the cluster's store; from its first start"),
    ] = False

    @property
    def host(self) -> str:
        """Host and port, as its chart wants them."""
        return urlsplit(self.url).netloc

    @property
    def port(self) -> int:
        """The port that it is reached at."""
        return urlsplit(self.url).port or 443


class DatabaseConnection(Entry):
    """PostgreSQL: where our processes reach it. Its URL is a secret, which the stack is given."""

    namespace: Annotated[str | None, Field(description="its namespace, where it runs in the control plane cluster")] = (
        None
    )
    ranges: Annotated[tuple[str, ...], Field(description="its addresses, where it runs elsewhere")] = ()
    port: Annotated[int, Field(ge=1, le=65535)] = 5432


class PlatformBackups(Entry):
    """When Velero saves the Platform's objects and ours, which all lie in the control plane cluster's own store."""

    schedule: Annotated[str, Field(description="cron expression, in UTC")]
    retention_days: Annotated[int, Field(ge=1)] = 30
    location: Annotated[str, Field(description="Velero's BackupStorageLocation")] = "default"
    namespace: Annotated[str, Field(description="where Velero runs")] = "velero"


class AccessSettings(Entry):
    """Who may do what with the REST API, beyond roles, and how long it is remembered."""

    customer_create: Annotated[
        bool, Field(description="whether customers' keys with the scope endpoints:write make and delete endpoints")
    ] = False
    team_scoping: Annotated[bool, Field(description="whether a key with a team reaches no other team's endpoints")] = (
        True
    )
    audit_retention_days: Annotated[int, Field(ge=1, le=36_500, description="days that audit events are kept")] = 400


class Installation(Entry):
    """Tenantry itself on the control plane cluster."""

    image: Annotated[str, Field(min_length=1, description="our image; by digest where the profile is prod")]
    catalog: Annotated[
        str | None, Field(pattern=r"^/", description="folder in the image that holds a catalog of your own")
    ] = None
    gateways: Annotated[
        int,
        Field(ge=1, le=100, description="how many gateways, a fixed number: each takes its share of slots and limits"),
    ] = 2
    credentials: Annotated[
        str,
        Field(
            pattern=r"^[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?$",
            description="name of the present secrets: another makes new access keys and restarts our processes",
        ),
    ] = "first"
    platform: PlatformConnection
    database: DatabaseConnection
    delivery_ranges: Annotated[
        tuple[str, ...], Field(description="addresses of the delivery repository, where they lie outside the cluster")
    ] = ()
    delivery_namespaces: Annotated[
        tuple[str, ...], Field(description="namespaces of who answers at its address inside the cluster")
    ] = ()
    delivery_pod_ports: Annotated[
        Ports,
        Field(description="ports of their pods; none means the address's, and 10000 above it where it is below 1024"),
    ] = ()
    delivery_user: Annotated[
        str, Field(pattern=r"^[^'\s]+$", description="user name that git gives over HTTPS, without blanks and quotes")
    ] = "tenantry"
    known_hosts: Annotated[
        str | None, Field(description="host keys of the delivery repository, where it is reached over SSH")
    ] = None
    tenant_ranges: Annotated[
        tuple[str, ...],
        Field(description="addresses of tenants' Gateways, and of our public one seen from outside; none means nobody"),
    ] = ()
    server_ca: Annotated[
        str | None,
        Field(description="PEM of who signs the certificates of tenants' Gateways; null for the image's public ones"),
    ] = None
    issuer: Annotated[
        str | None, Field(description="cert-manager ClusterIssuer of the public certificate; null over plain HTTP")
    ] = None
    certificate_names: Annotated[
        tuple[str, ...],
        Field(description="names in the public certificate; none means one wildcard for `public.hostname`"),
    ] = ()
    entrance_namespace: Annotated[
        str, Field(description="where the proxies of our public Gateway run: the only ones that reach our gateways")
    ]
    entrance_pod_ports: Annotated[
        Ports,
        Field(description="ports of these proxies; none means the listeners', and 10000 above those below 1024"),
    ] = ()
    api_namespaces: Annotated[
        tuple[str, ...], Field(description="namespaces whose pods may call the REST API; none means nobody")
    ] = ()
    metrics_namespace: Annotated[
        str, Field(description="whose pods may scrape us, and where Grafana finds our dashboards")
    ] = "monitoring"
    backups: PlatformBackups | None = None
    access: AccessSettings = AccessSettings()
