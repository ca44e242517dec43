"""Builds the real programs that some tests use: kube-apiserver, etcd, kubectl and Pulumi; helm for benchmarks.

`make engines` calls it. Each folder beside this file is a Go module that pins one of them; what it builds goes to
`TENANTRY_ENGINES`, by default `~/.cache/tenantry-engines`. Only what is missing or was built from another pin is built.
A program is replaced in one step, and one that cannot be built leaves the others alone. Needs Go and nothing else.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
TARGET = Path(os.environ.get("TENANTRY_ENGINES") or Path.home() / ".cache" / "tenantry-engines")
BUILD_SECONDS = 3600

PINNED = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kubernetes": "k8s.io/kubernetes",
    "helm": "helm.sh/helm/v4",
    "pulumi": "github.com/pulumi/pulumi/pkg/v3",
    "pulumi-resource-kubernetes": "github.com/pulumi/pulumi-kubernetes/provider/v4",
}
"""Folder -> the module whose version is the engine's."""

TESTED = [engine for engine in PINNED if engine != "helm"]
"""What tests use. Only benchmarks use helm, and it takes as long to build as kube-apiserver."""

LINKED = {
    "kubernetes": {
        "k8s.io/component-base/version.gitVersion": "v{version}",
        "k8s.io/component-base/version.gitMajor": "{major}",
        "k8s.io/component-base/version.gitMinor": "{minor}",
    },
    "helm": {"helm.sh/helm/v4/internal/version.version": "v{version}"},
    "pulumi": {"github.com/pulumi/pulumi/sdk/v3/go/common/version.Version": "v{version}"},
    "pulumi-resource-kubernetes": {"main.version": "{version}"},
}
"""Folder -> Go variables that the linker sets, as each project's own releases do."""


def main(arguments: list[str]) -> int:
    """Build what is missing of the engines named, or of those that tests use; 1 if one could not be built."""
    if unknown := set(arguments) - PINNED.keys():
        print(f"error: unknown engine: {', '.join(sorted(unknown))}; known: {', '.join(PINNED)}", file=sys.stderr)
        return 1
    if not shutil.which("go"):
        print(
            "error: go is not on PATH; docs/how-to/test-with-real-engines.md tells how to do without", file=sys.stderr
        )
        return 1
    TARGET.mkdir(parents=True, exist_ok=True)
    failed = [engine for engine in arguments or TESTED if not is_current(engine) and not build(engine)]
    if failed:
        print(f"error: could not be built: {', '.join(failed)}; the others are in {TARGET}", file=sys.stderr)
    else:
        print(f"engines are in {TARGET}")
    return 1 if failed else 0


def is_current(engine: str) -> bool:
    """Whether the engine was built from this pin and all its programs are there."""
    try:
        stamp = json.loads(_stamp(engine).read_text())
    except (OSError, ValueError):
        return False
    return stamp["pin"] == _pin(engine) and all((TARGET / name).exists() for name in stamp["programs"])


def build(engine: str) -> bool:
    """Build one engine in a copy of its folder and move its programs into place; False if Go refused."""
    started = time.monotonic()
    print(f"building {engine}: a few minutes", flush=True)
    with tempfile.TemporaryDirectory(dir=TARGET, prefix=".building-") as work:
        module = shutil.copytree(HERE / engine, Path(work) / engine)
        try:
            version = _go(module, "list", "-m", "-f", "{{.Version}}", PINNED[engine]).strip()
            _go(module, "generate", "./...")
            flags = _linker_flags(engine, version)
            _go(module, "build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", "bin/", "./...", "tool")
        except subprocess.SubprocessError as error:
            told = getattr(error, "stderr", None) or str(error)
            print(f"error: building {engine}:\n{told.strip()[-2000:]}", file=sys.stderr, flush=True)
            return False
        programs = sorted(path.name for path in (module / "bin").iterdir())
        for name in programs:
            (module / "bin" / name).replace(TARGET / name)
    _stamp(engine).write_text(json.dumps({"pin": _pin(engine), "programs": programs}))
    print(f"built {engine} {version} in {time.monotonic() - started:.0f} s: {', '.join(programs)}", flush=True)
    return True


def _stamp(engine: str) -> Path:
    return TARGET / f".{engine}.json"


def _pin(engine: str) -> str:
    """Digest of all that decides what is built: the module's files and what the linker sets."""
    parts = [path.read_bytes() for path in sorted((HERE / engine).rglob("*")) if path.is_file()]
    return hashlib.sha256(b"\0".join([*parts, repr(LINKED.get(engine)).encode()])).hexdigest()


def _linker_flags(engine: str, version: str) -> str:
    major, minor, _ = version.lstrip("v").split(".", 2)
    values = LINKED.get(engine, {}).items()
    set_values = [f"-X {name}={value.format(version=version[1:], major=major, minor=minor)}" for name, value in values]
    return " ".join(["-s -w", *set_values])


def _go(module: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["go", *arguments], cwd=module, check=True, capture_output=True, text=True, timeout=BUILD_SECONDS
    )
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
