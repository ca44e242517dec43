"""Installs with pip and says meanwhile what it fetches and how long it takes: on a terminal one line that is written
anew, in a pipe a line for what is large and one every quarter of a minute.

The Makefile calls it as `python tools/install.py <what pip install takes>`, before anything is installed: it needs the
standard library alone. What pip complains of passes as it is; when pip fails, what it said last is told too.
"""

from __future__ import annotations

import queue
import re
import shutil
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable
from typing import TextIO

REDRAWN_SECONDS = 1.0
TOLD_SECONDS = 15.0
_LARGE = re.compile(r"\((\d+(?:\.\d+)? [MG]B)\)")
_DOWNLOADING = re.compile(r"(?:Downloading|Using cached) (?:\S*/)?([^\s/]+?)-\d\S* \((.*)\)")
_COLLECTING = re.compile(r"Collecting ([\w.-]+)")
_INSTALLING = re.compile(r"Installing collected packages: (.*)")
_TOLD_OF_A_FAILURE = 20


class Progress:
    """What is being done, since when, and how it is told."""

    def __init__(self, out: TextIO, *, is_terminal: bool) -> None:
        self._out, self._is_terminal = out, is_terminal
        self._begun = self._told_at = time.monotonic()
        self._doing = "asking for packages"

    def follow(self, line: str) -> None:
        """Take a line of pip's."""
        doing = doing_of(line)
        if doing is None:
            return
        self._doing = doing
        if self._is_terminal:
            self.tick()
        elif doing.startswith("installing") or (doing.startswith("fetching") and _LARGE.search(doing)):
            self._write()

    def tick(self) -> None:
        """Time passed."""
        if self._is_terminal:
            width = shutil.get_terminal_size().columns - 1
            print(f"\r\x1b[K{self._line()[:width]}", end="", file=self._out, flush=True)
        elif time.monotonic() - self._told_at >= TOLD_SECONDS:
            self._write()

    def end(self, text: str) -> None:
        """Say how it ended."""
        self._doing = text
        if self._is_terminal:
            print("\r\x1b[K", end="", file=self._out)
        self._write()

    def _write(self) -> None:
        self._told_at = time.monotonic()
        print(self._line(), file=self._out, flush=True)

    def _line(self) -> str:
        minutes, seconds = divmod(int(time.monotonic() - self._begun), 60)
        return f"  {minutes}:{seconds:02}  {self._doing}"


def doing_of(line: str) -> str | None:
    """What pip does when it says this, None where that is no news."""
    if found := _DOWNLOADING.search(line):
        return None if ".metadata" in line else f"fetching {found[1]} ({found[2]})"
    if found := _COLLECTING.match(line):
        return f"looking for {found[1]}"
    if found := _INSTALLING.match(line):
        count = len(found[1].split(", "))
        return f"installing {count} package{'s' if count > 1 else ''}"
    return None


def main(arguments: Iterable[str]) -> int:
    """Install; pip's exit code."""
    command = [sys.executable, "-m", "pip", "install", "--no-input", "--progress-bar", "off", *arguments]
    progress = Progress(sys.stdout, is_terminal=sys.stdout.isatty())
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    last: deque[str] = deque(maxlen=_TOLD_OF_A_FAILURE)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace") as pip:
        threading.Thread(target=_read, args=(pip.stdout, lines), daemon=True).start()
        while True:
            try:
                line = lines.get(timeout=REDRAWN_SECONDS)
            except queue.Empty:
                progress.tick()
                continue
            if line is None:
                break
            last.append(line)
            progress.follow(line)
    progress.end("not installed" if pip.returncode else "installed")
    if pip.returncode:
        sys.stdout.write("".join(last))
    return pip.returncode


def _read(out: Iterable[str], lines: queue.SimpleQueue[str | None]) -> None:
    for line in out:
        lines.put(line)
    lines.put(None)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
