"""Starts the servers under test: the embedded one in a thread, etcd and kube-apiserver as processes on free ports."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from provisioner.domain.clock import SystemClock
from provisioner.embedded.apiserver.server import serve_api
from tests.engines import find_engine, require_engine
from tests.ports import free_port

_TOKEN = "conformance"
_START_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Server:
    """A running API server. `token` is empty where none is needed."""

    name: str
    url: str
    token: str = ""

    def client(self) -> httpx2.Client:
        """A client of the server; the caller closes it."""
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        return httpx2.Client(base_url=self.url, headers=headers, verify=_trusting(), timeout=60)

    def write_kubeconfig(self, path: Path) -> Path:
        """A kubeconfig for kubectl and lightkube."""
        cluster: dict[str, object] = {"server": self.url}
        if self.url.startswith("https"):
            cluster["insecure-skip-tls-verify"] = True
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": {"token": self.token} if self.token else {}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        }
        path.write_text(yaml.safe_dump(config))
        return path


def has_kube_apiserver() -> bool:
    """Whether the programs of a real one are there."""
    return all(find_engine(name) for name in ("etcd", "kube-apiserver"))


@contextmanager
def embedded(state: Path, *, history: int = 10_000) -> Iterator[Server]:
    """The embedded server on its own event loop."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    starting = serve_api(state=state, host="127.0.0.1", port=0, clock=SystemClock(), history=history)
    server = asyncio.run_coroutine_threadsafe(starting, loop).result(timeout=_START_SECONDS)
    try:
        yield Server("embedded", server.url)
    finally:
        asyncio.run_coroutine_threadsafe(server.close(), loop).result(timeout=_START_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextmanager
def kube_apiserver(folder: Path) -> Iterator[Server]:
    """A real etcd and kube-apiserver; skips without them."""
    etcd_port, peer_port, api_port = free_port(), free_port(), free_port()
    key = _write_key(folder / "service-account.key")
    tokens = folder / "tokens.csv"
    tokens.write_text(f"{_TOKEN},admin,admin,system:masters\n")
    etcd = [
        require_engine("etcd"),
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls=http://127.0.0.1:{etcd_port}",
        f"--advertise-client-urls=http://127.0.0.1:{etcd_port}",
        f"--listen-peer-urls=http://127.0.0.1:{peer_port}",
        "--unsafe-no-fsync",
    ]
    apiserver = [
        require_engine("kube-apiserver"),
        f"--etcd-servers=http://127.0.0.1:{etcd_port}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={api_port}",
        f"--cert-dir={folder / 'certificates'}",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        f"--token-auth-file={tokens}",
        "--authorization-mode=RBAC",
        "--allow-privileged=true",
        "--disable-admission-plugins=ServiceAccount",
        "--endpoint-reconciler-type=none",
    ]
    with ExitStack() as stack:
        for name, command in (("etcd", etcd), ("kube-apiserver", apiserver)):
            stack.enter_context(_running(command, folder / f"{name}.log"))
        server = Server("kube-apiserver", f"https://127.0.0.1:{api_port}", _TOKEN)
        _await_ready(server)
        yield server


@contextmanager
def _running(command: list[str], log: Path) -> Iterator[None]:
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=_START_SECONDS)


def _await_ready(server: Server) -> None:
    deadline = time.monotonic() + _START_SECONDS
    with server.client() as client:
        while time.monotonic() < deadline:
            try:
                if client.get("/readyz").status_code == 200 and client.get("/api/v1/namespaces/default").is_success:
                    return
            except httpx2.TransportError:
                pass
            time.sleep(0.1)
    raise TimeoutError(f"waiting for {server.name}: not ready after seconds: {_START_SECONDS}")


def _write_key(path: Path) -> Path:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
    )
    return path


def _trusting() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
