"""The programs of docs/how-to/use-the-python-client.md, run as they stand there against the real API."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from provisioner.client import Client, tenant_calls
from tests.unit.served import Served, serving

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "use-the-python-client.md"


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """The API with tenant acme; the environment names it."""
    with serving(tmp_path) as served:
        monkeypatch.setenv("TENANTRY_URL", served.url)
        monkeypatch.setenv("TENANTRY_API_KEY", served.key)
        with Client(served.url, served.key) as client:
            made = tenant_calls.create_tenant("acme", display_name="Acme", tiers=["dedicated"], idempotency_key="t")
            client.send(made)
        served.make_tenant()
        yield served


def test_the_programs_of_the_page_run_as_they_stand(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    text = PAGE.read_text().replace("gemma-3-270m", "tiny")  # the model of the small catalog
    programs = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(programs) == 3
    names: dict[str, object] = {}
    soon = threading.Timer(0.3, served.make_endpoint)
    soon.start()
    exec(programs[0], names)
    soon.join()
    assert "Ready http" in capsys.readouterr().out
    exec(programs[1], names)
    assert served.finish().verb == "endpoint.scale"
    served.clock.advance(1)
    exec(programs[2], names)
    told = capsys.readouterr().out
    assert "Ready" in told.splitlines()[0]
    assert "endpoint.scale" in told
