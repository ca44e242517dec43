"""Start-up time of the command line: `tenantry --help` against a Python that only imports Typer.

Both are started in turns within one run, so that a slow moment of the machine hits both. Prints a table and the ratio.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

PAIRS = 15
GOAL_RATIO = 2.0
HELP = (str(Path(sys.executable).with_name("tenantry")), "--help")
BASELINE = (sys.executable, "-c", "import typer")


def main() -> None:
    """Measure the pairs and print the table."""
    seconds(HELP), seconds(BASELINE)  # the first start of each reads files that later ones find in memory
    pairs = [(seconds(HELP), seconds(BASELINE)) for _ in range(PAIRS)]
    ours, theirs = ([pair[side] for pair in pairs] for side in (0, 1))
    ratio = statistics.median(mine / other for mine, other in pairs)
    print(f"{'command':<28}{'median ms':>10}{'fastest':>10}")
    print_row("tenantry --help", ours)
    print_row('python -c "import typer"', theirs)
    print(f"goal: at most {GOAL_RATIO:g}x; median of {PAIRS} pairs: {ratio:.2f}x ({verdict(ratio)})")


def print_row(name: str, times: list[float]) -> None:
    """One line of the table; times in seconds."""
    print(f"{name:<28}{statistics.median(times) * 1000:>10.0f}{min(times) * 1000:>10.0f}")


def verdict(ratio: float) -> str:
    """Whether the goal was reached."""
    return "met" if ratio <= GOAL_RATIO else "missed"


def seconds(command: tuple[str, ...]) -> float:
    """Seconds from the start of a command to its end."""
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
