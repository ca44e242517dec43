"""The seconds from nothing to a live endpoint and back: `tenantry demo --once` in an empty state folder.

Prints the parts that the demo itself counts, and the two goals: all of it, and what is neither loading the model nor
generating text with it. The loading holds the start of the model server; the small requests by which the endpoint is
proven before it is Ready, and the import of the client that generates, are not counted as the model's. Without bytecode
(PYTHONDONTWRITEBYTECODE on a fresh checkout) every process compiles the package anew: what is measured is longer then.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GOAL_SECONDS = 60.0
GOAL_OUTSIDE_MODEL_SECONDS = 10.0
MODEL_PARTS = ("model loading", "generation")
DEMO = str(Path(sys.executable).with_name("tenantry"))
DEADLINE_SECONDS = 600

_PART = re.compile(r"^  (?P<name>[a-z ]+?) +(?P<seconds>\d+\.\d) s$", re.MULTILINE)


def main() -> None:
    """Run the demo once and print the table."""
    with tempfile.TemporaryDirectory() as state:
        start = time.perf_counter()
        talk = run_demo(Path(state))
        everything = time.perf_counter() - start
    parts = {match["name"]: float(match["seconds"]) for match in _PART.finditer(talk)}
    if not parts.keys() >= set(MODEL_PARTS):
        sys.exit(f"reading the demo's parts: not all are there, found: {', '.join(parts) or 'none'}")
    outside = everything - sum(parts[name] for name in MODEL_PARTS)
    parts["starting Python, the rest"] = everything - sum(parts.values())
    print(f"{'part':<28}{'seconds':>8}{'share':>8}")
    for name, seconds in parts.items():
        print(f"{name:<28}{seconds:>8.1f}{seconds / everything:>8.0%}")
    print_verdict("all of it", everything, GOAL_SECONDS)
    print_verdict("without model loading and generation", outside, GOAL_OUTSIDE_MODEL_SECONDS)


def run_demo(state: Path) -> str:
    """What the demo says on stderr."""
    command = (DEMO, "demo", "--once", "--state", str(state))
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=DEADLINE_SECONDS)
    if ended.returncode:
        sys.exit(f"running the demo: it ended with {ended.returncode}\n{ended.stderr}")
    return ended.stderr


def print_verdict(what: str, seconds: float, goal: float) -> None:
    """One goal: how long it took, and as a ratio of the goal."""
    verdict = "met" if seconds <= goal else "missed"
    print(f"goal: {what} at most {goal:g} s; took {seconds:.1f} s, ratio {seconds / goal:.2f} ({verdict})")


if __name__ == "__main__":
    main()
