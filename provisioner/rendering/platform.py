"""What an installation stands up once on its control plane cluster, in named groups, in the order of their existence.

Namespaces, policies, the Platform's values, keys, certificates, the public Gateway, our own processes, monitoring. The
stack `platform` registers each group as a component; whoever applies manifests applies them in order. It reads
templates from disk and does nothing else; secrets come as arguments and are holes until they are given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from provisioner.catalog.entry import digest_of
from provisioner.catalog.installation import Installation
from provisioner.catalog.pack import PackFiles
from provisioner.catalog.site import Site
from provisioner.domain.errors import RejectedError
from provisioner.domain.tenant import POOL_TENANT
from provisioner.rendering.canonical import canonical_yaml
from provisioner.rendering.compiler import Compiler, Slots
from provisioner.rendering.processes import delivery_over_ssh, gateway_flows, server_processes
from provisioner.rendering.publishing import Object

FOLDER = "templates/_platform"
HOLE = "REPLACE_ME"
"""Stands where a secret belongs until it is given."""

HOME_GROUP = "platform"
"""What belongs to vCluster Platform itself: made only in the cluster that it runs in."""
GROUPS = (
    *("namespaces", "policies", HOME_GROUP, "connection", "certificates"),
    *("entrance", "server", "gateway", "monitoring"),
)
"""Every group, a folder of templates each, in the order in which they have to exist."""

SECRETS: Mapping[str, str] = {
    "connector_secret": "of the Argo CD connector: an account's token, or Akuity's API key",
    "bootstrap_key": "access key of the user that makes projects and publishes tiers",
    "runtime_key": "access key of the user that makes tenant clusters",
    "client_ca_key": "PEM: private key of the CA that `gateway.clientCa` of the site holds",
    "database_url": "postgresql://… of our own database",
    "operator_key": "first administrator's key of the REST API, of 32 characters or more",
    "gateway_key": "key by which gateways fetch snapshots",
    "delivery_credential": "of the delivery repository: a token over HTTPS, a private key over SSH",
    "platform_audit_database": "where the Platform keeps its audit log, if `installation.platform.auditDatabase`",
    "platform_database": "where the Platform keeps its state, if `installation.platform.database`",
}
"""What an installation is given beside its site, and what each is."""

SECRETS_OF_SOME_SITES = frozenset({"platform_audit_database", "platform_database"})
"""Those that only some sites want."""

CONNECTOR_KEYS: Mapping[str, str] = {"argocd": "token", "akuity": "akuityApiKeySecret"}
"""The key of a connector that is secret, by what it connects to."""


def render_platform(
    site: Site, *, files: PackFiles, compiler: Compiler, secrets: Mapping[str, str]
) -> dict[str, tuple[Object, ...]]:
    """The objects of every group. A secret that `secrets` does not name stays a hole.

    Raises RejectedError where the site says nothing of an installation, or names no certificate for customers' names.
    """
    constants = _constants(site, _installation(site)) | {name: secrets.get(name, HOLE) for name in SECRETS}
    found = {}
    for group in GROUPS:
        names = sorted(files.listed(f"{FOLDER}/{group}", "*.yaml.j2"))
        compiled = compiler(files, names, constants=constants, slots=Slots({}, {}), optional=frozenset(constants))
        found[group] = tuple(compiled.objects({}))
    return found


def _installation(site: Site) -> Installation:
    if site.installation is None:
        raise RejectedError(
            f"rendering the installation of site `{site.name}`: it says nothing of one: `installation`",
            reason="SiteIncomplete",
            hint="add `installation` to site.yaml; docs/how-to/install.md tells what it is",
        )
    return site.installation


def _constants(site: Site, installation: Installation) -> dict[str, Any]:
    hostnames = _public_hostnames(site, installation)
    return {
        "certificates": _certificates(site, hostnames),
        "delivery_over_ssh": delivery_over_ssh(site),
        "flows": gateway_flows(site, installation),
        "gateways": installation.gateways,
        "pool_domain": f"{POOL_TENANT}.{site.tenant_domain}",
        "processes": server_processes(site, installation),
        "public_hostnames": hostnames,
        "secret_key": CONNECTOR_KEYS[site.argo.kind],
        "site": site,
        "site_digest": digest_of(_site_document(site))[:16],
        "site_file": canonical_yaml(_site_document(site)),
    }


def _site_document(site: Site) -> dict[str, Any]:
    """The site as our processes read it: as it was written, but for what is left at its default."""
    document: dict[str, Any] = site.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return document


def _certificates(site: Site, names: tuple[str, ...]) -> list[tuple[str, tuple[str, ...], str]]:
    """Name, names in it and issuer of every certificate that our public Gateway shows."""
    found: list[tuple[str, tuple[str, ...], str]] = [
        ("tenantry-replicas", (f"*.{POOL_TENANT}.{site.tenant_domain}",), site.gateway.issuer)
    ]
    if site.public.scheme == "https":
        issuer = site.installation.issuer if site.installation else None
        if issuer is None:
            raise _incomplete(site, "customers come by HTTPS, and nobody issues a certificate", "issuer")
        found.append(("tenantry-public", names, issuer))
    return found


def _public_hostnames(site: Site, installation: Installation) -> tuple[str, ...]:
    """What customers' names may be, as listeners and certificates say it: a wildcard stands for one label there."""
    if installation.certificate_names:
        return installation.certificate_names
    first, _, ending = site.public.hostname.partition(".")
    if "{" in ending or not ending:
        raise _incomplete(site, "no wildcard covers more than one label of `public.hostname`", "certificateNames")
    return (f"*.{ending}" if "{" in first else site.public.hostname,)


def _incomplete(site: Site, why: str, field: str) -> RejectedError:
    return RejectedError(
        f"rendering the installation of site `{site.name}`: {why}: `installation.{field}`",
        reason="SiteIncomplete",
        hint=f"add `{field}` to `installation` in site.yaml",
    )
