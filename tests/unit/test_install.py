"""What `make demo` says while pip installs: asked of the script with a pip of our own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "tools" / "install.py"
SAID = """\
Collecting httpx2 (from tenantry==0.1.0)
  Downloading httpx2-1.0-py3-none-any.whl.metadata (5 kB)
Downloading httpx2-1.0-py3-none-any.whl (90 kB)
Downloading gemma3_weights-1.0-py3-none-any.whl (56.6 MB)
  Using cached orjson-3.11.0-cp311-cp311-linux_x86_64.whl.metadata (41 MB)
Using cached orjson-3.11.0-cp311-cp311-linux_x86_64.whl (1.5 MB)
Requirement already satisfied: typer in /venv
Installing collected packages: httpx2, gemma3_weights
Successfully installed httpx2-1.0
"""


def install(folder: Path, *, code: int) -> subprocess.CompletedProcess[str]:
    (folder / "pip").mkdir()
    (folder / "pip" / "__init__.py").touch()
    (folder / "pip" / "__main__.py").write_text(f"import sys\nprint({SAID!r}, end='')\nsys.exit({code})\n")
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, str(SCRIPT), "--editable", "."]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_a_pipe_is_told_what_is_large_and_how_it_ended(tmp_path: Path) -> None:
    done = install(tmp_path, code=0)
    told = [line.split(maxsplit=1)[1] for line in done.stdout.splitlines()]
    fetched = ["fetching gemma3_weights (56.6 MB)", "fetching orjson (1.5 MB)"]
    assert (done.returncode, told) == (0, [*fetched, "installing 2 packages", "installed"])
    assert "\x1b" not in done.stdout


def test_a_failure_ends_as_pip_does_and_tells_what_it_said(tmp_path: Path) -> None:
    done = install(tmp_path, code=3)
    assert done.returncode == 3
    assert done.stdout.endswith(f"not installed\n{SAID}")
