"""What a gateway without a control plane is told of its lanes: `BACKEND_GENERAL=http://…` and the settings beside it.

Contradictions between lanes are found where routes and queues are planned; here each value is read.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from provisioner.domain.errors import RejectedError
from provisioner.domain.snapshot import Allowance
from provisioner.gateway.standalone.lane import GENERAL, LANES, Lane, Standalone
from provisioner.settings import values
from provisioner.settings.values import Environ, Listen

VARIABLES: Mapping[str, str] = {
    "BACKEND_<LANE>": "base URL of the lane's engine, http or https; several with commas between them are replicas of "
    "one backend. GENERAL is required; CODER and VISION fall back to it, EMBEDDING and VOXTRAL do not",
    "CONCURRENCY_<LANE>": "requests that the backend answers at once, its replicas together; 0 is no queue; default: 1",
    "QUEUE_DEPTH_<LANE>": "requests that may wait for the backend; default: 32",
    "QUEUE_GROUP_<LANE>": "name of a queue that lanes share; default: the lane's own name. Lanes with a backend in "
    "common share a queue in any case",
    "QUEUE_MAX_WAIT": "how long a request may wait; default: 15m0s",
    "MODELS_<LANE>": "further names for the lane, with commas between them; its own is its name in lower case",
    "UPSTREAM_MODEL_<LANE>": "the model's name as the engine knows it; default: the name that the caller uses",
    "UPSTREAM_API_KEY_<LANE>_FILE": "file with the key that the engine wants as a bearer token; read again when it "
    "changes",
    "BALANCE_<LANE>": "as BALANCE, for the replicas of one lane",
    "TEAMS_<LANE>": "teams whose keys may use the lane, with commas between them; default: every key",
    "TENANTRY_TEAM_SCOPING": "`off` lets every key use every lane, whatever TEAMS_<LANE> says; default: on",
    "TENANTRY_KEYS_FILE": "JSON lines with the digests of keys; read again when it changes. Without it everybody who "
    "reaches the gateway may use it",
    "TENANTRY_ANONYMOUS": "`on` says that everybody may use a gateway without a keys file that listens on more than "
    "this machine; default: off",
    "RATE_LIMIT_RPM": "requests in a minute for each key, or for all callers where there are no keys; 0 is no bound; "
    "default: 0",
    "RATE_LIMIT_TPM": "tokens in a minute for each key, or for all callers where there are no keys; 0 is no bound; "
    "default: 0",
    "MAX_TOKENS_LIMIT": "tokens that one request may ask for; 0 is no bound; default: 0",
    "CORE_ROUTER_IDENTITY_KEY": "secret that signs claims of priority; without it nobody is interactive",
}
"""Read only where `BACKEND_GENERAL` is set."""

_OF_LANES = [(name.partition("<LANE>")[0], name.partition("<LANE>")[2]) for name in VARIABLES if "<LANE>" in name]
"""What stands before and after the lane in the names of settings."""
_ALIKE = 0.7
"""How much of a name must be a lane's to be taken for it, as difflib measures it."""
_OPEN = Listen(host="0.0.0.0", port=8080)  # noqa: S104 - behind keys, or said to be for everybody
_CLOSED = Listen(host="127.0.0.1", port=8080)
_BASE_PATHS = frozenset(("", "/", "/v1", "/v1/"))
_PORTS = {"http": 80, "https": 443}


def check_spelling(environ: Environ) -> None:
    """RejectedError for a setting of a lane that there is none of: nobody would miss what it says. Other programs'
    variables are left alone, those too with which Kubernetes tells pods of a Service `backend-general`, unless one
    names a URL for a backend or is all but a lane's."""
    for name in sorted(environ):
        if _is_key_itself(name):
            raise RejectedError(
                f"reading the environment: {name}: an engine's key stands in a file, not in the environment",
                reason="BadSetting",
                hint=f"write it into a file and name that by {name}_FILE",
            )
        for prefix, suffix in _OF_LANES:
            lane = name.removeprefix(prefix).removesuffix(suffix)
            if name != f"{prefix}{lane}{suffix}" or lane.lower() in LANES:
                continue
            near = lane.isalpha() and get_close_matches(lane, [one.upper() for one in LANES], 1, _ALIKE)
            if near or (prefix == "BACKEND_" and values.split_url(environ.get(name, ""))):
                meant = f"did you mean {prefix}{near[0]}{suffix}? " if near else ""
                raise RejectedError(
                    f"reading the environment: {name}: there is no such lane: {lane.lower()}",
                    reason="BadSetting",
                    hint=f"{meant}lanes are: {', '.join(LANES)}",
                )


def every_name() -> Iterator[str]:
    """The names of all settings, of every lane."""
    for name in VARIABLES:
        yield from {name.replace("<LANE>", lane.upper()) for lane in LANES}


def _is_key_itself(name: str) -> bool:
    lane = name.removeprefix("UPSTREAM_API_KEY_")
    return lane != name and lane.lower() in LANES


def has_lanes(environ: Environ) -> bool:
    """Whether the gateway stands alone. RejectedError for lanes without the general one."""
    named = [name for lane in LANES if environ.get(name := f"BACKEND_{lane.upper()}")]
    if named and f"BACKEND_{GENERAL.upper()}" not in named:
        raise RejectedError(
            f"reading the environment: BACKEND_GENERAL is missing; set: {', '.join(named)}",
            reason="BadSetting",
            hint="for example BACKEND_GENERAL=http://127.0.0.1:8000",
        )
    return bool(named)


def read_standalone(environ: Environ, *, is_mutual: bool) -> Standalone:
    """The lanes, and what holds for all of them."""
    keys_file = values.optional_path(environ, "TENANTRY_KEYS_FILE")
    if keys_file is not None and values.switch(environ, "TENANTRY_ANONYMOUS", default=False):
        raise RejectedError(
            "reading the environment: TENANTRY_KEYS_FILE lets its keys in and TENANTRY_ANONYMOUS everybody",
            reason="BadSetting",
            hint="set one of them",
        )
    has_teams = values.switch(environ, "TENANTRY_TEAM_SCOPING", default=True)
    lanes = tuple(_lane(environ, name, has_teams=has_teams) for name in LANES)
    if keys_file is None and (scoped := [lane.variable("TEAMS") for lane in lanes if lane.teams]):
        raise RejectedError(
            f"reading the environment: {scoped[0]} wants keys that have teams, and TENANTRY_KEYS_FILE is not set",
            reason="BadSetting",
            hint="set TENANTRY_KEYS_FILE, or TENANTRY_TEAM_SCOPING=off",
        )
    requests = values.number(environ, "RATE_LIMIT_RPM", 0) or None
    tokens = values.number(environ, "RATE_LIMIT_TPM", 0) or None
    return Standalone(
        lanes=lanes,
        keys_file=keys_file,
        wait_seconds=values.duration(environ, "QUEUE_MAX_WAIT", 900.0),
        allowance=Allowance(requests_per_minute=requests, tokens_per_minute=tokens) if requests or tokens else None,
        max_tokens=values.number(environ, "MAX_TOKENS_LIMIT", 0) or None,
        is_mutual=is_mutual,
    )


def read_address(environ: Environ, *, has_keys: bool) -> Listen:
    """Where a gateway listens that stands alone: on more than this machine only with keys, or where that is said."""
    is_for_many = has_keys or values.switch(environ, "TENANTRY_ANONYMOUS", default=False)
    told = environ.get("LISTEN_ADDR")
    if not told:
        return _OPEN if is_for_many else _CLOSED
    listen = values.parse_listen("LISTEN_ADDR", told)
    if not is_for_many and not _is_loopback(listen.host):
        raise RejectedError(
            f"reading the environment: LISTEN_ADDR would let everybody in without a key: {told}",
            reason="BadSetting",
            hint="set TENANTRY_KEYS_FILE, or TENANTRY_ANONYMOUS=on if that is meant, or LISTEN_ADDR=127.0.0.1:8080",
        )
    return listen


def _lane(environ: Environ, name: str, *, has_teams: bool) -> Lane:
    lane = name.upper()
    key = f"UPSTREAM_API_KEY_{lane}_FILE"
    key_file = values.optional_path(environ, key)
    if key_file is not None:
        values.read_secret(f"secret of {key}", key_file, hint="one line with the key that the engine wants")
    teams = values.names(environ, f"TEAMS_{lane}")
    return Lane(
        name=name,
        urls=_base_urls(environ, f"BACKEND_{lane}"),
        models=values.names(environ, f"MODELS_{lane}") or (),
        upstream_model=values.name(environ, f"UPSTREAM_MODEL_{lane}"),
        api_key_file=key_file,
        teams=teams if has_teams else None,
        group=values.name(environ, f"QUEUE_GROUP_{lane}"),
        slots=values.optional_number(environ, f"CONCURRENCY_{lane}", most=100_000),
        depth=values.optional_number(environ, f"QUEUE_DEPTH_{lane}", most=1_000_000),
        balance=values.balance(environ, f"BALANCE_{lane}"),
    )


def _base_urls(environ: Environ, variable: str) -> tuple[str, ...]:
    """The URLs, each in one form, so that two lanes on one backend are known as such."""
    value = environ.get(variable)
    if not value:
        return ()
    urls = [_base_url(variable, text.strip()) for text in value.split(",")]
    if twice := next((url for url in urls if urls.count(url) > 1), None):
        raise RejectedError(
            f"reading the environment: {variable} names one replica twice: {twice}",
            reason="BadSetting",
            hint="name each engine once; a trailing /v1 and the usual port make no difference",
        )
    return tuple(urls)


def _base_url(variable: str, text: str) -> str:
    parts = values.split_url(text)
    if parts is None or parts.path not in _BASE_PATHS or parts.query or parts.fragment or "@" in parts.netloc:
        wants = "base URLs of engines (http or https, host and port, no path but /v1)"
        raise values.bad_setting(variable, wants, None if "@" in text else text, "http://127.0.0.1:8000")
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    is_usual = parts.port in (None, _PORTS[parts.scheme])
    return f"{parts.scheme}://{host}" if is_usual else f"{parts.scheme}://{host}:{parts.port}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
