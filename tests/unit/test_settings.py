"""The environment, read once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from provisioner.catalog.pack import example_site, pack_root
from provisioner.domain.errors import RejectedError
from provisioner.settings import (
    VARIABLES,
    Listen,
    parse_listen,
    read_api_key,
    read_gateway_key,
    read_operator_key,
    read_settings,
)
from provisioner.wiring import load_offer, load_planning_offer

ROOT = Path(__file__).resolve().parents[2]


def test_an_empty_environment_is_a_laptop_installation_under_one_folder() -> None:
    settings = read_settings({})
    state = Path("~/.local/state/tenantry").expanduser()
    assert settings.state == state
    assert {settings.site.parent, settings.kubeconfig.parent, settings.operator_key_file.parent} == {state}
    assert settings.url == "http://127.0.0.1:8400"


def test_everything_follows_the_state_folder(tmp_path: Path) -> None:
    settings = read_settings({"TENANTRY_STATE": str(tmp_path)})
    assert settings.site == tmp_path / "site.yaml"
    assert settings.database_url.endswith(str(tmp_path / "tenantry.sqlite"))


def test_a_catalog_of_ones_own_is_what_the_processes_offer(tmp_path: Path) -> None:
    assert read_settings({}).catalog is None
    source = pack_root() / "templates" / "dedicated" / "tier.yaml"
    text = source.read_text().replace("name: dedicated", "name: gold").replace("tier: dedicated", "tier: gold")
    (tmp_path / "templates" / "gold").mkdir(parents=True)
    (tmp_path / "templates" / "gold" / "tier.yaml").write_text(text)
    settings = read_settings({"TENANTRY_CATALOG": str(tmp_path), "TENANTRY_SITE": str(example_site())})
    assert {"gold", "dedicated"} <= set(load_offer(settings)[0].tiers)
    assert "gold" in load_planning_offer(settings, overlay=settings.catalog)[0].tiers


def test_the_bootstrap_key_is_apart_from_the_runtime_key() -> None:
    settings = read_settings({"TENANTRY_KUBECONFIG": "/run/runtime", "TENANTRY_BOOTSTRAP_KUBECONFIG": "/run/bootstrap"})
    assert (settings.kubeconfig, settings.bootstrap_kubeconfig) == (Path("/run/runtime"), Path("/run/bootstrap"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:80", Listen(host="127.0.0.1", port=80)),
        (":8080", Listen(host="0.0.0.0", port=8080)),
        ("[::1]:8080", Listen(host="::1", port=8080)),
    ],
)
def test_listen_addresses_in_their_usual_forms(text: str, expected: Listen) -> None:
    assert parse_listen("LISTEN_ADDR", text) == expected


@pytest.mark.parametrize("address", ["127.0.0.1:8400", "[::1]:8400"])
def test_the_command_line_finds_the_api_where_it_listens(address: str) -> None:
    assert read_settings({"TENANTRY_SERVE_ADDR": address}).url == f"http://{address}"


@pytest.mark.parametrize("text", ["8080", "host:", "host:http", "host:65536", "host:-1", "host:٣"])
def test_a_bad_listen_address_names_the_variable(text: str) -> None:
    with pytest.raises(RejectedError, match="LISTEN_ADDR"):
        parse_listen("LISTEN_ADDR", text)


@pytest.mark.parametrize("text", ["localhost:8400", "http://", "http://[", "http://x:99999", "http://x:", "ftp://x"])
def test_a_bad_url_names_the_variable(text: str) -> None:
    with pytest.raises(RejectedError, match="TENANTRY_URL"):
        read_settings({"TENANTRY_URL": text})


class Noting(dict[str, str]):
    """An environment that notes what it is asked for."""

    def __init__(self, *told: tuple[str, str]) -> None:
        super().__init__(told)
        self.asked: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        """Notes `name` and gives its value."""
        self.asked.add(name)
        return super().get(name, default)

    def __contains__(self, name: object) -> bool:
        self.asked.add(str(name))
        return super().__contains__(name)


def test_every_variable_that_is_read_is_documented() -> None:
    environ = Noting()
    read_settings(environ)
    read_api_key(environ)
    assert environ.asked - {"XDG_STATE_HOME", "XDG_CACHE_HOME"} == set(VARIABLES)


def test_settings_do_not_show_the_password_of_the_database() -> None:
    assert "hunter2" not in repr(read_settings({"TENANTRY_DATABASE_URL": "postgresql://me:hunter2@db/tenantry"}))


@pytest.mark.parametrize("content", [b"", b"\n", b"a\nb\n", b"\xff", b"x" * 10_000])
def test_a_file_that_holds_no_key_is_refused_without_showing_what_it_holds(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "operator.key").write_bytes(content)
    with pytest.raises(RejectedError, match="operator key") as raised:
        read_operator_key(read_settings({"TENANTRY_STATE": str(tmp_path)}))
    assert raised.value.hint
    assert "xxx" not in raised.value.message


def test_a_key_is_read_without_the_end_of_its_line(tmp_path: Path) -> None:
    (tmp_path / "gateway.key").write_text("tnt-gateway\n")
    assert read_gateway_key(read_settings({"TENANTRY_STATE": str(tmp_path)})) == "tnt-gateway"


@pytest.mark.parametrize(
    "environ",
    [
        {"TENANTRY_CUSTOMER_CREATE": "yes"},
        {"TENANTRY_TEAM_SCOPING": "1"},
        {"TENANTRY_AUDIT_RETENTION": "0"},
        {"TENANTRY_AUDIT_RETENTION": "-1"},
        {"TENANTRY_AUDIT_RETENTION": "36501"},
        {"TENANTRY_AUDIT_RETENTION": "9" * 5000},
        {"TENANTRY_AUDIT_RETENTION": "a year"},
    ],
)
def test_a_switch_and_a_number_of_days_are_read_strictly(environ: dict[str, str]) -> None:
    with pytest.raises(RejectedError, match="|".join(environ)) as raised:
        read_settings(environ)
    assert len(raised.value.message) < 250


def test_who_may_what_is_set_by_the_environment() -> None:
    """Ledger: LIF-13, TEN-16, SEC-03."""
    plain = read_settings({})
    assert (plain.customer_create, plain.team_scoping, plain.audit_retention_days) == (False, True, 400)
    names = ("TENANTRY_CUSTOMER_CREATE", "TENANTRY_TEAM_SCOPING", "TENANTRY_AUDIT_RETENTION")
    asked = read_settings(dict(zip(names, ("On", "off", "30"), strict=True)))
    assert (asked.customer_create, asked.team_scoping, asked.audit_retention_days) == (True, False, 30)


def test_nothing_else_reads_the_environment() -> None:
    readers = {
        path for path in (ROOT / "provisioner").rglob("*.py") if re.search(r"os\.(environ|getenv)", path.read_text())
    }
    assert {path.name for path in readers if path.parent.name != "settings"} <= {"demo.py"}
