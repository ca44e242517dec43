"""Every process of a rendered installation starts as its manifest says: command, variables and files, and no others.

Paths lie below a temporary folder, ports are ephemeral and the database is SQLite; everything else is as rendered.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from provisioner.rendering.pack import compile_pack
from provisioner.rendering.platform import SECRETS
from tests.unit.probe.conftest import authority
from tests.unit.rendering.examples import catalog, example_site

pytestmark = pytest.mark.timeout(240)

Object = dict[str, Any]
DEADLINE_SECONDS = 90.0
ROOTS = ("/etc/tenantry", "/var/lib/tenantry")


class Installation:
    """The rendered objects, and a folder that stands for the nodes' disks."""

    def __init__(self, folder: Path) -> None:
        secrets = {name: f"{name}-{'x' * 20}" for name in SECRETS} | {"database_url": f"sqlite:///{folder}/database"}
        self.folder = folder
        self.objects = compile_pack(catalog(), example_site()).platform_groups(secrets=secrets)
        self.ca = authority(folder, "client-ca")

    def deployments(self) -> dict[str, Object]:
        """The pod of each Deployment."""
        made = (*self.objects["server"], *self.objects["gateway"])
        return {m["metadata"]["name"]: m["spec"]["template"]["spec"] for m in made if m["kind"] == "Deployment"}

    def lay_out(self, name: str, pod: Object) -> Path:
        """The files that a pod is given, under a root of its own."""
        root = self.folder / name
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        for mount in pod["containers"][0]["volumeMounts"]:
            place = root / mount["mountPath"].lstrip("/")
            place.mkdir(parents=True, exist_ok=True)
            for file, text in self._files_of(volumes[mount["name"]]).items():
                (place / file).write_text(relocated(text, root))
        return root

    def _files_of(self, volume: Object) -> dict[str, str]:
        if "emptyDir" in volume:
            return {}
        kind, name = (
            ("Secret", volume["secret"]["secretName"])
            if "secret" in volume
            else ("ConfigMap", volume["configMap"]["name"])
        )
        for made in self.objects["connection"]:
            if (made["kind"], made["metadata"]["name"]) == (kind, name):
                found: dict[str, str] = made["stringData" if kind == "Secret" else "data"]
                return found
        certificate, key = self.ca.sign(name)  # as cert-manager would
        return {"tls.crt": certificate.read_text(), "tls.key": key.read_text()}

    def environment(self, pod: Object, root: Path) -> dict[str, str]:
        """The variables that a pod is given."""
        found = {"PATH": os.environ["PATH"], "PYTHONPATH": os.getcwd(), "PYTHONUNBUFFERED": "1"}
        for item in pod["containers"][0]["env"]:
            if "value" in item:
                found[item["name"]] = relocated(item["value"], root)
            else:
                reference = item["valueFrom"]["secretKeyRef"]
                [secret] = (made for made in self.objects["connection"] if is_secret(made, reference["name"]))
                found[item["name"]] = secret["stringData"][reference["key"]]
        if "TENANTRY_SERVER_CA" in found:
            found["TENANTRY_SERVER_CA"] = str(self.ca.file)
        return found


def is_secret(made: Object, name: str) -> bool:
    return (made["kind"], made["metadata"]["name"]) == ("Secret", name)


def relocated(text: str, root: Path) -> str:
    """A text with our folders below another root."""
    return re.sub("|".join(ROOTS), lambda found: f"{root}{found[0]}", text)


@contextmanager
def started(pod: Object, environment: dict[str, str], log: Path) -> Iterator[Callable[[str], str]]:
    """The pod's process; gives a function that waits for what it logs."""
    [container] = pod["containers"]
    assert container["command"] == ["tenantry"]
    with log.open("wb") as stream:
        command = [sys.executable, "-m", "provisioner.cli", *container["args"]]
        process = subprocess.Popen(command, env=environment, stderr=stream, stdout=stream)

    def logged(pattern: str) -> str:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not (found := re.search(pattern, log.read_text())):
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        return found[1]

    try:
        yield logged
    finally:
        process.terminate()
        assert process.wait(timeout=DEADLINE_SECONDS) == 0, log.read_text()


def test_every_process_starts_as_its_manifest_says(tmp_path: Path) -> None:
    installation = Installation(tmp_path)
    with ExitStack() as stack:
        api = ""
        for name, pod in installation.deployments().items():
            root = installation.lay_out(name, pod)
            environment = installation.environment(pod, root)
            if name == "tenantry-gateway":
                environment |= {"LISTEN_ADDR": "127.0.0.1:0", "TENANTRY_SNAPSHOT_URL": f"{api}/internal/snapshots"}
                environment["ADMIN_ADDR"] = "127.0.0.1:0"  # two gateways' tests on one machine would want the same port
                logged = stack.enter_context(started(pod, environment, root / "log"))
                assert logged(r"using snapshot (\d+)")
                continue
            assert environment["TENANTRY_SERVE_ADDR"] == ":8400"
            environment |= {"TENANTRY_SERVE_ADDR": "127.0.0.1:0", "TENANTRY_URL": "http://127.0.0.1:8400"}
            logged = stack.enter_context(started(pod, environment, root / "log"))
            url = "http://" + logged(r"serving on (\S+)")
            assert httpx2.get(f"{url}/readyz", timeout=10, trust_env=False).status_code == 200, name
            api = api or url


def test_git_is_given_the_credential_by_the_program_that_it_asks(tmp_path: Path) -> None:
    installation = Installation(tmp_path)
    pod = installation.deployments()["tenantry-worker"]
    root = installation.lay_out("tenantry-worker", pod)
    asked = installation.environment(pod, root)["GIT_ASKPASS"]
    [volume] = (volume for volume in pod["volumes"] if volume["name"] == "git")
    Path(asked).chmod(volume["configMap"]["defaultMode"])
    answers = [
        subprocess.run([asked, prompt], capture_output=True, text=True, check=True).stdout.strip()
        for prompt in ("Username for 'https://git.example.com': ", "Password for 'https://tenantry@git.example.com': ")
    ]
    assert answers == ["tenantry", f"delivery_credential-{'x' * 20}"]
