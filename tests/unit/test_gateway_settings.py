"""What a gateway takes from the environment, alone and with a control plane."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from provisioner.domain.decode_rate import MARGIN_SECONDS
from provisioner.domain.errors import RejectedError
from provisioner.domain.key import key_digest
from provisioner.domain.snapshot import Allowance
from provisioner.gateway.config import Balancing, GatewayConfig, Limits, Probing, Queueing, TlsFiles, UsageRecording
from provisioner.gateway.standalone.lane import LANES, Lane, Standalone
from provisioner.settings import gateway, lanes
from provisioner.settings.gateway import read_gateway_config
from tests.unit.test_settings import Noting

ALONE = {"BACKEND_GENERAL": "http://127.0.0.1:8000"}


@pytest.fixture
def controlled(tmp_path: Path) -> Mapping[str, str]:
    """The environment of a gateway with a control plane."""
    (tmp_path / "gateway.key").write_text("tnt-gateway")
    return {"TENANTRY_STATE": str(tmp_path), "TENANTRY_CONTROL_PLANE": "http://api:8400/"}


def refused(environ: Mapping[str, str]) -> str:
    """What is said of an environment that stops the start."""
    with pytest.raises(RejectedError) as error:
        read_gateway_config(environ)
    return error.value.message


def standalone(environ: Mapping[str, str]) -> Standalone:
    found = read_gateway_config({**ALONE, **environ}).standalone
    assert found is not None
    return found


def lane(environ: Mapping[str, str], name: str = "general") -> Lane:
    return next(lane for lane in standalone(environ).lanes if lane.name == name)


def test_general_backend_is_all_that_a_gateway_needs() -> None:
    """Ledger: GW-15, GW-16. Every default is the one that is documented."""
    told = tuple(Lane(name=name, urls=("http://127.0.0.1:8000",) if name == "general" else ()) for name in LANES)
    assert read_gateway_config(ALONE) == GatewayConfig(
        listen_host="127.0.0.1", listen_port=8080, standalone=Standalone(lanes=told)
    )
    assert Limits().upstream_header_seconds == 20 * 60


@pytest.mark.parametrize(
    ("environ", "seconds", "tokens"),
    [
        ({}, 1200.0, None),
        ({"MAX_TOKENS_LIMIT": "2000"}, 1200.0, 2000),
        ({"INFERENCE_DECODE_TOK_S": "3.4", "MAX_TOKENS_LIMIT": "2000"}, 2000 / 3.4 + MARGIN_SECONDS, 2000),
        ({"INFERENCE_DECODE_TOK_S": "6.8", "MAX_TOKENS_LIMIT": "2000"}, 2000 / 6.8 + MARGIN_SECONDS, 2000),
        ({"INFERENCE_DECODE_TOK_S": "3.4"}, 1200.0, 3876),
        ({"INFERENCE_DECODE_TOK_S": "6.8"}, 1200.0, 7752),
        ({"INFERENCE_DECODE_TOK_S": "3.4", "UPSTREAM_HEADER_TIMEOUT": "11m"}, 660.0, 2040),
        (
            {"INFERENCE_DECODE_TOK_S": "3.4", "UPSTREAM_HEADER_TIMEOUT": "11m", "MAX_TOKENS_LIMIT": "9000"},
            660.0,
            9000,
        ),
        ({"INFERENCE_DECODE_TOK_S": "3.4", "MAX_TOKENS_LIMIT": "0"}, 1200.0, None),
    ],
)
def test_length_and_time_of_an_answer_follow_from_the_rate_that_is_told(
    environ: Mapping[str, str], seconds: float, tokens: int | None
) -> None:
    """Ledger: ADM-17."""
    found = read_gateway_config({**ALONE, **environ})
    assert found.standalone is not None
    assert found.limits.upstream_header_seconds == pytest.approx(seconds)
    assert found.standalone.max_tokens == tokens


def test_another_backend_without_the_general_one_stops_the_start() -> None:
    """Ledger: GW-15."""
    told = refused({"BACKEND_CODER": "http://a", "BACKEND_VOXTRAL": "http://b"})
    assert "BACKEND_GENERAL" in told
    assert "BACKEND_CODER, BACKEND_VOXTRAL" in told


def test_without_any_backend_a_control_plane_is_needed() -> None:
    """Ledger: GW-15."""
    told = refused({"BACKEND_GENERAL": ""})
    assert "BACKEND_GENERAL" in told
    assert "TENANTRY_CONTROL_PLANE" in told


def test_lanes_and_a_control_plane_are_two_ways_of_which_one_is_taken() -> None:
    told = refused({**ALONE, "TENANTRY_CONTROL_PLANE": "http://api:8400"})
    assert "BACKEND_GENERAL" in told
    assert "TENANTRY_CONTROL_PLANE" in told


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, "127.0.0.1:8080"),
        ({"TENANTRY_KEYS_FILE": "keys.jsonl"}, "0.0.0.0:8080"),
        ({"TENANTRY_ANONYMOUS": "on"}, "0.0.0.0:8080"),
        ({"LISTEN_ADDR": "127.0.0.9:81"}, "127.0.0.9:81"),
        ({"LISTEN_ADDR": "[::1]:81"}, "::1:81"),
        ({"LISTEN_ADDR": "localhost:81"}, "localhost:81"),
        ({"LISTEN_ADDR": "10.0.0.1:81", "TENANTRY_ANONYMOUS": "on"}, "10.0.0.1:81"),
        ({"LISTEN_ADDR": ":81", "TENANTRY_KEYS_FILE": "keys.jsonl"}, "0.0.0.0:81"),
    ],
)
def test_gateway_without_keys_listens_on_this_machine_unless_it_is_meant_for_everybody(
    environ: Mapping[str, str], expected: str
) -> None:
    """Ledger: GW-15."""
    config = read_gateway_config({**ALONE, **environ})
    assert f"{config.listen_host}:{config.listen_port}" == expected


@pytest.mark.parametrize("address", [":8080", "0.0.0.0:8080", "[::]:8080", "10.0.0.1:8080", "gateway:8080"])
def test_open_gateway_for_more_than_this_machine_must_be_meant(address: str) -> None:
    """Ledger: GW-15."""
    assert "LISTEN_ADDR" in refused({**ALONE, "LISTEN_ADDR": address})


def test_keys_and_everybody_contradict_each_other() -> None:
    told = refused({**ALONE, "TENANTRY_KEYS_FILE": "keys.jsonl", "TENANTRY_ANONYMOUS": "on"})
    assert "TENANTRY_KEYS_FILE" in told
    assert "TENANTRY_ANONYMOUS" in told


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("http://engine:8000", ("http://engine:8000",)),
        ("http://Engine:8000/v1", ("http://engine:8000",)),
        ("http://engine:80/v1/ , http://engine:81", ("http://engine", "http://engine:81")),
        ("https://engine:443", ("https://engine",)),
        ("http://a:1,http://b:2", ("http://a:1", "http://b:2")),
        ("http://[::1]:8000/", ("http://[::1]:8000",)),
    ],
)
def test_backend_is_a_base_url_or_several_replicas_each_in_one_form(value: str, expected: tuple[str, ...]) -> None:
    assert lane({"BACKEND_GENERAL": value}).urls == expected


def test_lane_has_its_own_names_engine_name_key_teams_and_queue(tmp_path: Path) -> None:
    """Ledger: TEN-16, ADM-01, ADM-02, ADM-05."""
    (tmp_path / "key").write_text("hunter2\n")
    environ = {
        "BACKEND_CODER": "http://b:1",
        "MODELS_CODER": "starcoder, deepseek,starcoder",
        "UPSTREAM_MODEL_CODER": "bigcode/starcoder",
        "UPSTREAM_API_KEY_CODER_FILE": str(tmp_path / "key"),
        "TENANTRY_KEYS_FILE": "keys.jsonl",
        "TEAMS_CODER": "a,b",
        "QUEUE_GROUP_CODER": "gpu-1",
        "CONCURRENCY_CODER": "0",
        "QUEUE_DEPTH_CODER": "7",
        "BALANCE_CODER": "least-loaded",
    }
    assert lane(environ, "coder") == Lane(
        name="coder",
        urls=("http://b:1",),
        models=("starcoder", "deepseek"),
        upstream_model="bigcode/starcoder",
        api_key_file=tmp_path / "key",
        teams=("a", "b"),
        group="gpu-1",
        slots=0,
        depth=7,
        balance="least-loaded",
    )
    assert lane({**environ, "TENANTRY_TEAM_SCOPING": "off"}, "coder").teams is None


def test_what_holds_for_all_lanes() -> None:
    """Ledger: ADM-03, ADM-04, ADM-09, ADM-10, ADM-17."""
    config = read_gateway_config(
        {
            **ALONE,
            "QUEUE_MAX_WAIT": "1s",
            "RATE_LIMIT_RPM": "60",
            "MAX_TOKENS_LIMIT": "2000",
            "RETRY_AFTER": "7s",
            "INTERACTIVE_PER_PRINCIPAL": "3",
            "BACKGROUND_MAX_WAIT": "1m30s",
            "PRIORITY_HEADER": "X-Runink-Priority",
            "CORE_ROUTER_IDENTITY_KEY": "hunter2",
            "INFERENCE_DECODE_TOK_S": "6.8",
        }
    )
    assert config.standalone is not None
    assert config.standalone.wait_seconds == 1
    assert config.standalone.allowance == Allowance(requests_per_minute=60)
    assert config.standalone.max_tokens == 2000
    assert config.queueing == Queueing(
        retry_after_seconds=7,
        interactive_per_principal=3,
        background_wait_seconds=90,
        priority_header="X-Runink-Priority",
        identity_key=b"hunter2",
        decode_tokens_per_second=6.8,
    )
    assert "hunter2" not in repr(config)


def test_bounds_of_the_process() -> None:
    """Ledger: GW-16."""
    bounds = {
        "UPSTREAM_HEADER_TIMEOUT": "1s",
        "TENANTRY_STREAM_IDLE": "10m",
        "TENANTRY_MAX_BODY_BYTES": str(2 << 30),
        "HEADER_TIMEOUT": "1s",
        "BODY_TIMEOUT": "2s",
        "BODY_TOTAL_TIMEOUT": "3s",
        "MAX_HEADER_BYTES": "1024",
        "MAX_HEADERS": "10",
        "CONNECT_TIMEOUT": "500ms",
        "KEEP_ALIVE_INTERVAL": "0",
        "DRAIN_TIMEOUT": "1m",
        "UPSTREAM_IDLE": "0s",
    }
    assert read_gateway_config({**ALONE, **bounds}).limits == Limits(
        body_bytes=2 << 30,
        body_memory_bytes=2 << 30,
        header_bytes=1024,
        header_count=10,
        header_seconds=1,
        body_seconds=2,
        body_total_seconds=3,
        connect_seconds=0.5,
        upstream_header_seconds=1,
        silence_seconds=600,
        upstream_idle_seconds=0,
        comment_seconds=0,
        drain_seconds=60,
    )


def test_what_the_process_does_besides(tmp_path: Path) -> None:
    config = read_gateway_config(
        {
            **ALONE,
            "PROBE_INTERVAL": "1s",
            "PROBE_TIMEOUT": "100ms",
            "BALANCE": "cache-aware",
            "CACHE_ROUTERS": "2",
            "USAGE_INJECT": "off",
            "TENANTRY_USAGE_FILE": str(tmp_path / "usage.jsonl"),
            "ADMIN_ADDR": ":9090",
        }
    )
    assert config.probing == Probing(interval_seconds=1, timeout_seconds=0.1)
    assert config.balancing == Balancing(balance="cache-aware", routers=2)
    assert config.usage == UsageRecording(asks_for_usage=False, file=tmp_path / "usage.jsonl")
    assert (config.admin_host, config.admin_port) == ("0.0.0.0", 9090)


def test_client_certificate_is_for_engines_where_all_of_it_is_named() -> None:
    names = ("TENANTRY_CLIENT_CERT", "TENANTRY_CLIENT_KEY", "TENANTRY_SERVER_CA")
    config = read_gateway_config({**ALONE, **{name: f"/{name}" for name in names}})
    assert config.tls == TlsFiles(
        client_certificate=Path(f"/{names[0]}"), client_key=Path(f"/{names[1]}"), server_ca=Path(f"/{names[2]}")
    )
    assert config.standalone is not None
    assert config.standalone.is_mutual


def test_gateway_of_an_installation_follows_its_control_plane(controlled: Mapping[str, str], tmp_path: Path) -> None:
    config = read_gateway_config(controlled)
    assert config.control is not None
    assert (config.control.url, config.control.credential) == ("http://api:8400", "tnt-gateway")
    assert config.control.snapshot_file == tmp_path / "snapshot.json"
    assert (config.listen_host, config.listen_port) == ("0.0.0.0", 8080)
    assert (config.admin_host, config.admin_port) == ("127.0.0.1", 9090)
    assert config.standalone is None
    assert "tnt-gateway" not in repr(config)


def test_snapshot_url_names_the_control_plane_too(controlled: Mapping[str, str]) -> None:
    environ = {**controlled, "TENANTRY_CONTROL_PLANE": "", "TENANTRY_SNAPSHOT_URL": "http://api:1/internal/snapshots"}
    config = read_gateway_config({**environ, "ADMIN_ADDR": ""})
    assert config.control is not None
    assert config.control.url == "http://api:1"
    assert config.admin_host is None
    assert "TENANTRY_SNAPSHOT_URL" in refused({**environ, "TENANTRY_SNAPSHOT_URL": "http://api:1/snapshots"})


def test_one_identity_key_is_for_gateways_that_stand_alone(controlled: Mapping[str, str]) -> None:
    """With a control plane every tenant has its own."""
    assert read_gateway_config({**controlled, "CORE_ROUTER_IDENTITY_KEY": "x"}).queueing.identity_key is None


def test_every_variable_that_is_read_is_documented(controlled: Mapping[str, str]) -> None:
    alone, other = Noting(*ALONE.items()), Noting(*controlled.items())
    read_gateway_config(alone)
    read_gateway_config(other)
    asked = {_of_any_lane(name) for name in alone.asked | other.asked}
    documented = {*gateway.VARIABLES, *lanes.VARIABLES}
    assert documented <= asked
    assert {name for name in asked - documented if not name.startswith(("TENANTRY_", "XDG_", "GIT_", "SSH_"))} == set()


def _of_any_lane(name: str) -> str:
    for one in LANES:
        name = name.replace(f"_{one.upper()}", "_<LANE>")
    return name


def test_keys_file_is_not_read_with_the_settings(tmp_path: Path) -> None:
    """It is the source of snapshots that reads it, again and again."""
    assert standalone({"TENANTRY_KEYS_FILE": str(tmp_path / "none")}).keys_file == tmp_path / "none"
    assert key_digest("") not in repr(standalone({}))
