"""The how-to on playgrounds, followed over a real API server until a customer's call is answered."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx2
import pytest

from tests.conformance import servers
from tests.e2e.conftest import require_weights, run_command
from tests.engines import require_engine
from tests.ports import free_port

pytestmark = pytest.mark.timeout(300)

DEADLINE_SECONDS = 90.0
REQUEST = Path(__file__).parents[2] / "docs" / "quickstart" / "request.yaml"


def test_a_chat_call_is_answered_in_a_cluster_of_ones_own(tmp_path: Path) -> None:
    """Ledger: LIF-03, ROU-07. Tier, tenant, endpoint and key over `embedded --attach`; the model is a real one."""
    require_weights()
    kubectl = require_engine("kubectl")
    state = tmp_path / "playground"
    api, gateway, tenants = free_port(), free_port(), free_port()
    environment = {**os.environ, "TENANTRY_STATE": str(state), "TENANTRY_SERVE_ADDR": f"127.0.0.1:{api}"}
    environment |= {"LISTEN_ADDR": f"127.0.0.1:{gateway}", "KUBECONFIG": str(state / "kubeconfig")}
    environment |= {"ADMIN_ADDR": "127.0.0.1:0"}
    for name in [name for name in environment if name.startswith("TENANTRY_") and not name.endswith(("STATE", "ADDR"))]:
        del environment[name]  # the installation of whoever runs the tests is no part of this one
    environment["TENANTRY_CONTROL_PLANE"] = f"http://127.0.0.1:{api}"

    def tenantry(*arguments: str) -> str:
        done = run_command(*arguments, environ=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    with ExitStack() as stack:
        server = stack.enter_context(servers.kube_apiserver(tmp_path))
        attach = ("--attach", str(server.write_kubeconfig(tmp_path / "kind.kubeconfig")), "--port", "0")
        ports = ("--gateway-port", str(tenants), "--public-port", str(gateway))
        stack.enter_context(running("embedded", *attach, *ports, environment=environment, until=r"^ready$"))
        seed = [kubectl, "apply", "--server-side", "-f", str(state / "seed.yaml")]
        subprocess.run(seed, env=environment, check=True, capture_output=True, timeout=DEADLINE_SECONDS)
        tenantry("tier", "publish", "dedicated")
        for key in ("operator", "gateway"):
            (state / f"{key}.key").write_text(f"tnt-{key}-{'x' * 64}")
        stack.enter_context(running("serve", environment=environment, until="serving on"))
        stack.enter_context(running("gateway", environment=environment, until="using snapshot"))
        tenantry("tenant", "create", "acme", "--tier", "dedicated", "--wait")
        tenantry("endpoint", "create", "-f", str(REQUEST), "--wait", "--timeout", "2m")

        url = json.loads(tenantry("endpoint", "show", "acme/second", "-o", "json"))["url"]
        secret = json.loads(tenantry("key", "create", "acme", "-o", "json"))["secret"]
        answer = eventually_let_in(url, secret)
        assert answer.status_code == 200, answer.text
        assert answer.json()["choices"][0]["message"]["content"]
        assert ask(url, "tnt-nobody").status_code == 401

        tenantry("endpoint", "delete", "acme/second", "--wait")


def ask(url: str, key: str) -> httpx2.Response:
    """A customer's call."""
    body = {"model": "second", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}
    headers = {"Authorization": f"Bearer {key}"}
    return httpx2.post(f"{url}/chat/completions", json=body, headers=headers, timeout=60, trust_env=False)


def eventually_let_in(url: str, key: str) -> httpx2.Response:
    """The answer to a new key, once the gateway has the snapshot that it is in."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while (answer := ask(url, key)).status_code == 401 and time.monotonic() < deadline:
        time.sleep(0.1)
    return answer


@contextmanager
def running(command: str, *arguments: str, environment: Mapping[str, str], until: str) -> Iterator[None]:
    """`tenantry <command>` as a process that has said what it says when it is ready; at the end it ends by itself."""
    log = Path(environment["TENANTRY_STATE"]).with_name(f"{command}.log")
    with log.open("wb") as stream:
        line = [sys.executable, "-m", "provisioner.cli", command, *arguments]
        process = subprocess.Popen(line, env=dict(environment), stdout=stream, stderr=stream)
    try:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not re.search(until, log.read_text(), re.MULTILINE):
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        assert process.wait(timeout=DEADLINE_SECONDS) == 0, log.read_text()
