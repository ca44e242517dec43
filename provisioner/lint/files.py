"""Finds and reads the files below the linted paths. What cannot be read becomes an oddity, never an exception.

Folders whose name starts with a dot are left out, and so are what a folder link leads to twice and what `.lintignore`
in a linted folder names. Nothing but regular files is opened, and none beyond a size. The only part of the linter that
touches the disk.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from provisioner.lint.document import Oddity

MAX_BYTES = 32 * 1024 * 1024
"""Greatest size of a file; a list of 10,000 large objects has about 15 MB."""
SUFFIXES = (".yaml", ".yml", ".json", ".tpl", ".j2", "Kustomization")

IGNORE_FILE = ".lintignore"
"""In a linted folder: a pattern a line for paths below it that are left out, such as samples of what is wrong."""
_MAX_IGNORE_BYTES = 64 * 1024

_MARKS = ((b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16"), (b"\x00\x00\xfe\xff", "UTF-32"))


@dataclass(slots=True)
class Files:
    """The texts of all files that may hold manifests, the names of all files, and what could not be read."""

    texts: dict[str, str] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    asked_for: set[str] = field(default_factory=set)
    """The names of files that were asked for themselves."""
    oddities: list[Oddity] = field(default_factory=list)

    def add(self, path: Path) -> None:
        """Read what stands at a path as it was given."""
        try:
            kind = path.stat().st_mode
        except (OSError, ValueError) as error:
            self._refuse(path.as_posix(), _reason(error), fix="correct the path")
            return
        if stat.S_ISDIR(kind):
            ignored = _Ignored.of(path)
            for found in self._below(path, _around(path), ignored):
                self._read(found)
        else:
            self.asked_for.add(path.as_posix())
            self._read(path)

    def _below(self, folder: Path, above: frozenset[tuple[int, int]], ignored: _Ignored) -> Iterator[Path]:
        try:
            status = folder.stat()
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            self._refuse(folder.as_posix(), _reason(error), fix="give yourself access to the folder")
            return
        here = (status.st_dev, status.st_ino)
        if here in above:
            message = "reading folder: a link that leads back to a folder around it"
            self._note("file-link-loop", folder.as_posix(), message, fix="remove the link")
            return
        for entry in entries:
            path = folder / entry.name
            if ignored.covers(path):
                continue
            try:
                is_folder = path.is_dir()
            except OSError as error:
                self._refuse(path.as_posix(), _reason(error), fix="give yourself access to what the link leads to")
                continue
            if not is_folder:
                yield path
            elif not entry.name.startswith("."):
                yield from self._below(path, above | {here}, ignored)

    def _read(self, path: Path) -> None:
        name = path.as_posix()
        self.names.append(name)
        if name in self.texts or not (name in self.asked_for or path.name.endswith(SUFFIXES)):
            return
        try:
            if not stat.S_ISREG(path.stat().st_mode):
                self._refuse(name, "it is no regular file", fix="remove it, or lint another path")
                return
            with path.open("rb") as stream:
                data = stream.read(MAX_BYTES + 1)
        except (OSError, ValueError) as error:
            self._refuse(name, _reason(error), fix="give yourself access to the file, or remove it")
            return
        self._take(name, data)

    def _take(self, name: str, data: bytes) -> None:
        if len(data) > MAX_BYTES:
            message = f"reading file: larger than {MAX_BYTES // 1024 // 1024} MiB"
            self._note("file-too-large", name, message, fix="split it into files of fewer objects")
            return
        encoding = next((encoding for mark, encoding in _MARKS if data.startswith(mark)), None)
        if encoding:
            self._note("file-encoding", name, f"reading file: it is {encoding}", fix="save it as UTF-8")
            return
        try:
            self.texts[name] = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            message = f"reading file: not UTF-8 at byte {error.start}"
            self._note("file-encoding", name, message, fix="save it as UTF-8", line=line)

    def _refuse(self, name: str, reason: str, *, fix: str) -> None:
        self._note("file-unreadable", name, f"reading file: {reason}", fix=fix)

    def _note(self, rule: str, name: str, message: str, *, fix: str, line: int = 1) -> None:
        self.oddities.append(Oddity(rule=rule, file=name, at_line=line, message=message, fix=fix))


@dataclass(frozen=True, slots=True)
class _Ignored:
    """What a linted folder says is left out."""

    folder: Path
    patterns: tuple[str, ...] = ()

    @classmethod
    def of(cls, folder: Path) -> _Ignored:
        """The patterns in a folder's own file: relative paths with `*`; empty lines and those with `#` say nothing."""
        file = folder / IGNORE_FILE
        try:
            if not stat.S_ISREG(file.stat().st_mode):
                return cls(folder)
            with file.open("rb") as stream:
                lines = stream.read(_MAX_IGNORE_BYTES).decode(errors="replace").splitlines()
        except (OSError, ValueError):
            return cls(folder)
        words = (line.strip().strip("/") for line in lines if not line.lstrip().startswith("#"))
        return cls(folder, tuple(word for word in words if word))

    def covers(self, path: Path) -> bool:
        """Whether a path is left out."""
        if not self.patterns:
            return False
        name = path.relative_to(self.folder).as_posix()
        return any(fnmatchcase(name, pattern) for pattern in self.patterns)


def read_files(paths: Sequence[Path]) -> Files:
    """Everything below some paths."""
    files = Files()
    for path in paths:
        files.add(path)
    return files


def _around(folder: Path) -> frozenset[tuple[int, int]]:
    """The folders around one: a link to any of them would lead back to it."""
    try:
        return frozenset((found.st_dev, found.st_ino) for found in map(os.stat, folder.resolve().parents))
    except (OSError, RuntimeError):
        return frozenset()


def _reason(error: OSError | ValueError) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()
