"""The environment, read once into one frozen value. Nothing else in the package reads `os.environ`.

Every variable has a default that suits a laptop installation under one state directory, so that the commands work there
without any. docs/reference/settings.md is generated from `VARIABLES`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from provisioner.domain.errors import RejectedError

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
    "`tenantry endpoint chat` wants a customer's",
    "TENANTRY_CLIENT_CERT": "PEM: our client certificate towards tenants' Gateways",
    "TENANTRY_CLIENT_KEY": "PEM: its private key",
    "TENANTRY_SERVER_CA": "PEM: who signs the certificates of tenants' Gateways",
    "TENANTRY_SNAPSHOT_URL": "where a gateway fetches snapshots; default: the REST API's",
    "TENANTRY_SNAPSHOT_FILE": "where a gateway keeps the last snapshot",
    "GIT_SSH_COMMAND": "handed to git, for a delivery repository over SSH",
    "GIT_ASKPASS": "handed to git, for a delivery repository over HTTPS: a program that answers with the credential",
    "SSH_AUTH_SOCK": "handed to git: the agent that holds the SSH key",
    "LISTEN_ADDR": "host:port (or :port) the gateway serves customers on; default: :8080",
    "ADMIN_ADDR": "host:port of the gateway's health, status and metrics; empty for none",
}


_LONGEST_SECRET = 512
_NO_SECRET = f"not one line of 1 to {_LONGEST_SECRET} visible ASCII characters"
_MOST_DAYS = 36_500


@dataclass(frozen=True, slots=True, kw_only=True)
class Listen:
    """A host and port to listen on; port 0 lets the system choose."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


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
    snapshot_url: str
    snapshot_file: Path
    git: Mapping[str, str]
    listen: Listen
    admin: Listen | None
    customer_create: bool
    team_scoping: bool
    audit_retention_days: int


def read_settings(environ: Mapping[str, str] = os.environ) -> Settings:
    """Read `environ`. Raises RejectedError that names the variable."""
    state = _path(environ, "TENANTRY_STATE", _home(environ, "XDG_STATE_HOME", "~/.local/state"))
    serve = parse_listen("TENANTRY_SERVE_ADDR", environ.get("TENANTRY_SERVE_ADDR") or "127.0.0.1:8400")
    url = _url(environ, "TENANTRY_URL", f"http://{serve}").rstrip("/")
    kubeconfig = _path(environ, "TENANTRY_KUBECONFIG", state / "kubeconfig")
    admin = environ.get("ADMIN_ADDR")
    return Settings(
        state=state,
        cache=_home(environ, "XDG_CACHE_HOME", "~/.cache"),
        site=_path(environ, "TENANTRY_SITE", state / "site.yaml"),
        catalog=Path(catalog).expanduser() if (catalog := environ.get("TENANTRY_CATALOG")) else None,
        kubeconfig=kubeconfig,
        bootstrap_kubeconfig=_path(environ, "TENANTRY_BOOTSTRAP_KUBECONFIG", kubeconfig),
        database_url=environ.get("TENANTRY_DATABASE_URL") or f"sqlite:///{state / 'tenantry.sqlite'}",
        serve=serve,
        url=url,
        operator_key_file=_path(environ, "TENANTRY_OPERATOR_KEY_FILE", state / "operator.key"),
        gateway_key_file=_path(environ, "TENANTRY_GATEWAY_KEY_FILE", state / "gateway.key"),
        client_cert=_path(environ, "TENANTRY_CLIENT_CERT", state / "pki" / "client.crt"),
        client_key=_path(environ, "TENANTRY_CLIENT_KEY", state / "pki" / "client.key"),
        server_ca=_path(environ, "TENANTRY_SERVER_CA", state / "pki" / "server-ca.crt"),
        snapshot_url=_url(environ, "TENANTRY_SNAPSHOT_URL", f"{url}/internal/snapshots"),
        snapshot_file=_path(environ, "TENANTRY_SNAPSHOT_FILE", state / "snapshot.json"),
        git={name: environ[name] for name in ("GIT_SSH_COMMAND", "GIT_ASKPASS", "SSH_AUTH_SOCK") if name in environ},
        listen=parse_listen("LISTEN_ADDR", environ.get("LISTEN_ADDR") or ":8080"),
        admin=parse_listen("ADMIN_ADDR", admin) if admin else None,
        customer_create=_switch(environ, "TENANTRY_CUSTOMER_CREATE", default=False),
        team_scoping=_switch(environ, "TENANTRY_TEAM_SCOPING", default=True),
        audit_retention_days=_days(environ, "TENANTRY_AUDIT_RETENTION", 400),
    )


def read_operator_key(settings: Settings) -> str:
    """The operator's key of this installation. Raises RejectedError that names the file, never its content."""
    hint = "start a laptop installation with `tenantry demo`, or set TENANTRY_OPERATOR_KEY_FILE and TENANTRY_URL"
    return _secret("operator key", settings.operator_key_file, hint=hint)


def read_gateway_key(settings: Settings) -> str:
    """The key by which gateways fetch snapshots. Raises RejectedError that names the file, never its content."""
    return _secret("gateway key", settings.gateway_key_file, hint="set TENANTRY_GATEWAY_KEY_FILE or TENANTRY_STATE")


def read_api_key(environ: Mapping[str, str] = os.environ) -> str | None:
    """The key of `TENANTRY_API_KEY`, or None. Raises RejectedError that never shows it."""
    secret = environ.get("TENANTRY_API_KEY", "").strip()
    if secret and not _is_secret(secret):  # else the HTTP library would show it in its own error
        hint = "make a key with `tenantry key create TENANT` and export it as it is"
        raise RejectedError(f"reading TENANTRY_API_KEY: {_NO_SECRET}", reason="BadApiKey", hint=hint)
    return secret or None


def parse_listen(variable: str, value: str) -> Listen:
    """Read `host:port`, `[v6]:port` or `:port` (every address). Raises RejectedError that names the variable."""
    host, colon, port = value.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise RejectedError(
            f"reading the environment: {variable} wants host:port or :port, found: {value!r}",
            reason="BadSetting",
            hint=f"for example {variable}=127.0.0.1:8080",
        )
    return Listen(host=host.strip("[]") or "0.0.0.0", port=int(port))  # noqa: S104 - `:port` means every address


def _secret(what: str, file: Path, *, hint: str) -> str:
    try:
        with file.open("rb") as stream:
            secret = stream.read(_LONGEST_SECRET + 1).decode("ascii").strip()
    except OSError as error:
        raise RejectedError(f"reading the {what} `{file}`: {error.strerror}", reason="NoSecret", hint=hint) from error
    except UnicodeDecodeError:
        secret = ""
    if not _is_secret(secret):
        raise RejectedError(f"reading the {what} `{file}`: {_NO_SECRET}", reason="NoSecret", hint=hint)
    return secret


def _is_secret(text: str) -> bool:
    return text.isascii() and text.isprintable() and 0 < len(text) <= _LONGEST_SECRET


def _switch(environ: Mapping[str, str], variable: str, *, default: bool) -> bool:
    value = environ.get(variable)
    if not value:
        return default
    if value.lower() not in ("on", "off"):
        raise RejectedError(
            f"reading the environment: {variable} wants on or off, found: {value!r}",
            reason="BadSetting",
            hint=f"for example {variable}=on",
        )
    return value.lower() == "on"


def _days(environ: Mapping[str, str], variable: str, default: int) -> int:
    value = environ.get(variable) or str(default)
    if not (value.isascii() and value.isdecimal() and 1 <= int(value[:6]) <= _MOST_DAYS and len(value) <= 5):
        raise RejectedError(
            f"reading the environment: {variable} wants 1 to {_MOST_DAYS} days, found: {value[:80]!r}",
            reason="BadSetting",
            hint=f"for example {variable}={default}",
        )
    return int(value)


def _url(environ: Mapping[str, str], variable: str, default: str) -> str:
    value = environ.get(variable) or default
    try:
        parts = urlsplit(value)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # half a bracket, or a port that is none
        is_url = False
    if not is_url:
        raise RejectedError(
            f"reading the environment: {variable} wants an http or https URL, found: {value!r}",
            reason="BadSetting",
            hint=f"for example {variable}=http://127.0.0.1:8400",
        )
    return value


def _path(environ: Mapping[str, str], variable: str, default: Path) -> Path:
    value = environ.get(variable)
    return Path(value).expanduser() if value else default


def _home(environ: Mapping[str, str], variable: str, default: str) -> Path:
    """Our folder in one of the user's own, as the XDG base directories have it."""
    return Path(environ.get(variable) or default).expanduser() / "tenantry"
