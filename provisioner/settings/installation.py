"""What the server, the embedded plane and the command line take from the environment.

Every variable has a default that suits a laptop installation under one state directory, so that the commands work there
without any.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from provisioner.domain.errors import RejectedError
from provisioner.settings import values
from provisioner.settings.values import Listen, parse_listen

VARIABLES: Mapping[str, str] = {
    "TENANTRY_STATE": "state folder: databases, keys, certificates, logs; default: ~/.local/state/tenantry",
    "TENANTRY_SITE": "site.yaml, what differs between installations",
    "TENANTRY_CATALOG": "folder of models, tiers and runtimes of your own, laid over ours; `--catalog` goes before it",
    "TENANTRY_KUBECONFIG": "kubeconfig of the runtime key, a context per control plane cluster of the site",
    "TENANTRY_BOOTSTRAP_KUBECONFIG": "kubeconfig of the bootstrap key, used to create tenants and publish tiers only",
    "TENANTRY_DATABASE_URL": "where the database is: postgresql://… or sqlite:///…",
    "TENANTRY_SERVE_ADDR": "host:port the REST API listens on; default: 127.0.0.1:8400",
    "TENANTRY_URL": "where the command line finds the REST API; default: http://127.0.0.1:8400",
    "TENANTRY_OPERATOR_KEY_FILE": "file with an operator's key: the command line sends it; the first start of the API "
    "makes it an administrator's, or makes a key and writes it there",
    "TENANTRY_GATEWAY_KEY_FILE": "file with the key by which gateways fetch snapshots",
    "TENANTRY_CUSTOMER_CREATE": "`on` lets customers' keys with the scope endpoints:write make and delete endpoints of "
    "their tenant; default: off",
    "TENANTRY_TEAM_SCOPING": "`off` lets every key of a tenant use every endpoint of it, whatever teams they have; "
    "default: on",
    "TENANTRY_AUDIT_RETENTION": "days for which audit events are kept; default: 400",
    "TENANTRY_API_KEY": "the key that the command line sends instead of the operator's: a customer's, or any other; "
    "`tenantry endpoint chat` sends it to the endpoint, and none where it is not set",
    "TENANTRY_CLIENT_CERT": "PEM: our client certificate towards tenants' Gateways",
    "TENANTRY_CLIENT_KEY": "PEM: its private key",
    "TENANTRY_SERVER_CA": "PEM: who signs the certificates of tenants' Gateways",
    "GIT_SSH_COMMAND": "handed to git, for a delivery repository over SSH",
    "GIT_ASKPASS": "handed to git, for a delivery repository over HTTPS: a program that answers with the credential",
    "SSH_AUTH_SOCK": "handed to git: the agent that holds the SSH key",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything the processes take from their environment. Secrets are named by file, never held here, but for the
    password that a database URL may hold: it is never shown."""

    state: Path
    cache: Path
    site: Path
    catalog: Path | None
    kubeconfig: Path
    bootstrap_kubeconfig: Path
    database_url: str = field(repr=False)
    serve: Listen
    url: str
    operator_key_file: Path
    gateway_key_file: Path
    client_cert: Path
    client_key: Path
    server_ca: Path
    git: Mapping[str, str]
    customer_create: bool
    team_scoping: bool
    audit_retention_days: int


def read_settings(environ: Mapping[str, str] = os.environ) -> Settings:
    """Read `environ`. Raises RejectedError that names the variable."""
    state = values.path(environ, "TENANTRY_STATE", values.home(environ, "XDG_STATE_HOME", "~/.local/state"))
    serve = parse_listen("TENANTRY_SERVE_ADDR", environ.get("TENANTRY_SERVE_ADDR") or "127.0.0.1:8400")
    url = values.url(environ, "TENANTRY_URL", f"http://{serve}").rstrip("/")
    kubeconfig = values.path(environ, "TENANTRY_KUBECONFIG", state / "kubeconfig")
    return Settings(
        state=state,
        cache=values.home(environ, "XDG_CACHE_HOME", "~/.cache"),
        site=values.path(environ, "TENANTRY_SITE", state / "site.yaml"),
        catalog=values.optional_path(environ, "TENANTRY_CATALOG"),
        kubeconfig=kubeconfig,
        bootstrap_kubeconfig=values.path(environ, "TENANTRY_BOOTSTRAP_KUBECONFIG", kubeconfig),
        database_url=environ.get("TENANTRY_DATABASE_URL") or f"sqlite:///{state / 'tenantry.sqlite'}",
        serve=serve,
        url=url,
        operator_key_file=values.path(environ, "TENANTRY_OPERATOR_KEY_FILE", state / "operator.key"),
        gateway_key_file=values.path(environ, "TENANTRY_GATEWAY_KEY_FILE", state / "gateway.key"),
        client_cert=values.path(environ, "TENANTRY_CLIENT_CERT", state / "pki" / "client.crt"),
        client_key=values.path(environ, "TENANTRY_CLIENT_KEY", state / "pki" / "client.key"),
        server_ca=values.path(environ, "TENANTRY_SERVER_CA", state / "pki" / "server-ca.crt"),
        git={name: environ[name] for name in ("GIT_SSH_COMMAND", "GIT_ASKPASS", "SSH_AUTH_SOCK") if name in environ},
        customer_create=values.switch(environ, "TENANTRY_CUSTOMER_CREATE", default=False),
        team_scoping=values.switch(environ, "TENANTRY_TEAM_SCOPING", default=True),
        audit_retention_days=values.days(environ, "TENANTRY_AUDIT_RETENTION", 400),
    )


def read_operator_key(settings: Settings) -> str:
    """The operator's key of this installation. Raises RejectedError that names the file, never its content."""
    hint = "start a laptop installation with `tenantry demo`, or set TENANTRY_OPERATOR_KEY_FILE and TENANTRY_URL"
    return values.read_secret("operator key", settings.operator_key_file, hint=hint)


def read_gateway_key(settings: Settings) -> str:
    """The key by which gateways fetch snapshots. Raises RejectedError that names the file, never its content."""
    file = settings.gateway_key_file
    hint = f"make one with `openssl rand -hex 32 > {file}`, or name another file with TENANTRY_GATEWAY_KEY_FILE"
    return values.read_secret("gateway key", file, hint=hint)


def names_server(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether `TENANTRY_URL` names a server to ask, for what files could tell as well."""
    return bool(environ.get("TENANTRY_URL", "").strip())


def read_api_key(environ: Mapping[str, str] = os.environ) -> str | None:
    """The key of `TENANTRY_API_KEY`, or None. Raises RejectedError that never shows it."""
    secret = environ.get("TENANTRY_API_KEY", "").strip()
    if secret and not values.is_secret(secret):  # else the HTTP library would show it in its own error
        hint = "make a key with `tenantry key create TENANT` and export it as it is"
        raise RejectedError(f"reading TENANTRY_API_KEY: {values.NO_SECRET}", reason="BadApiKey", hint=hint)
    return secret or None
