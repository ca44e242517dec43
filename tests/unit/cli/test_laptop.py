"""What a laptop installation keeps: its ports, its secrets, and its state for itself."""

from __future__ import annotations

import socket
from dataclasses import asdict
from pathlib import Path

import pytest

from provisioner.cli.laptop import Laptop, Ports, write_secret
from provisioner.domain.errors import ConflictError, RejectedError

ANY_PORTS = Ports(api=0, control_plane=0, gateway=0, tenant_gateway=0)


async def test_ports_of_the_first_start_are_kept(tmp_path: Path) -> None:
    """Endpoints that were made are reached by them."""
    first = Laptop(tmp_path, {}, ports=ANY_PORTS)
    await first.stop()
    with socket.socket() as other:
        other.bind(("127.0.0.1", first.ports.gateway))
        other.listen()
        second = Laptop(tmp_path, {}, ports=ANY_PORTS)
        assert second.ports == first.ports
        with pytest.raises(RejectedError) as refused:
            second.start(lambda _: None)
        assert refused.value.reason == "PortTaken"
        assert str(first.ports.gateway) in refused.value.message
    await second.stop()


async def test_installations_that_start_together_have_ports_of_their_own(tmp_path: Path) -> None:
    """Nobody listens yet: a demo takes seconds from choosing its ports to listening on them."""
    first = Laptop(tmp_path / "first", {}, ports=ANY_PORTS)
    second = Laptop(tmp_path / "second", {}, ports=first.ports)
    assert not set(asdict(first.ports).values()) & set(asdict(second.ports).values())
    assert first.operator_port != second.operator_port
    assert first.environ["ADMIN_ADDR"] == f"127.0.0.1:{first.operator_port}"
    await first.stop()
    third = Laptop(tmp_path / "third", {}, ports=first.ports)
    assert third.ports == first.ports
    for laptop in (second, third):
        await laptop.stop()


async def test_state_has_one_owner_at_a_time(tmp_path: Path) -> None:
    first = Laptop(tmp_path, {}, ports=ANY_PORTS)
    with pytest.raises(ConflictError) as refused:
        Laptop(tmp_path, {}, ports=ANY_PORTS)
    assert refused.value.reason == "StateInUse" and refused.value.hint
    await first.stop()
    await Laptop(tmp_path, {}, ports=ANY_PORTS).stop()


def test_secret_is_written_whole_once_and_for_us_alone(tmp_path: Path) -> None:
    file = tmp_path / "operator.key"
    (tmp_path / ".operator.key.new").write_text("half of a sec")  # what a killed writer leaves
    write_secret(file, "first")
    write_secret(file, "second")
    assert file.read_text() == "first\n"
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", ["", "{", "[]", '{"api": 1, "other": 2}'])
def test_ports_that_cannot_be_read_are_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "ports.json").write_text(text)
    with pytest.raises(RejectedError, match=r"ports\.json") as refused:
        Laptop(tmp_path, {}, ports=ANY_PORTS)
    assert refused.value.hint
