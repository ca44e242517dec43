"""Bytes that `pip install tenantry` brings to a machine, without extras, and its five biggest parts.

Builds the wheel of this checkout and installs it into a new virtual environment, which it throws away. Counts what pip
recorded for every distribution, compiled bytecode included; pip itself, which every environment has, is not counted.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from importlib.metadata import Distribution, distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GOAL_MEGABYTES = 200
BIGGEST = 5
MEGABYTE = 1_000_000
NOT_OURS = ("pip", "setuptools")


def main() -> None:
    """Measure and print the table."""
    with tempfile.TemporaryDirectory() as folder:
        sizes = installed_sizes(Path(folder))
    ranked = sorted(sizes.items(), key=lambda part: part[1], reverse=True)
    total = sum(sizes.values())
    print(f"{'distribution':<24}{'MB':>8}{'share':>8}")
    for name, size in ranked[:BIGGEST]:
        print_row(name, size, total)
    print_row(f"{len(ranked) - BIGGEST} others", sum(size for _, size in ranked[BIGGEST:]), total)
    print_row("all", total, total)
    verdict = "met" if total <= GOAL_MEGABYTES * MEGABYTE else "missed"
    print(f"goal: at most {GOAL_MEGABYTES} MB; ratio {total / MEGABYTE / GOAL_MEGABYTES:.2f} ({verdict})")


def print_row(name: str, size: int, total: int) -> None:
    """One line of the table; sizes in bytes."""
    print(f"{name:<24}{size / MEGABYTE:>8.1f}{size / total:>8.0%}")


def installed_sizes(folder: Path) -> dict[str, int]:
    """Bytes by distribution after installing this checkout's wheel below `folder`."""
    wheels, environment = folder / "wheels", folder / "environment"
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(wheels), str(ROOT))
    run(sys.executable, "-m", "venv", str(environment))
    (wheel,) = wheels.glob("*.whl")
    run(str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet", str(wheel))
    (packages,) = environment.glob("lib/python*/site-packages")
    found = distributions(path=[str(packages)])
    return {part.name: recorded_bytes(part) for part in found if part.name not in NOT_OURS}


def recorded_bytes(part: Distribution) -> int:
    """Bytes of every file that pip recorded for a distribution."""
    paths = [Path(str(file.locate())) for file in part.files or ()]
    return sum(path.stat().st_size for path in paths if path.is_file())


def run(*command: str) -> None:
    """Run a command that must succeed; its talk goes to stderr."""
    subprocess.run(command, check=True, stdout=sys.stderr)


if __name__ == "__main__":
    main()
