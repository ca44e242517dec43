"""Secrets that a snapshot names, read from files when they are needed and kept in memory only.

A name is that of a file in one folder, such as a mounted Kubernetes Secret, or of a file that the settings give. A file
that changes is read again, so a secret can be replaced while requests run. No secret is ever logged, shown in a status
or written anywhere. Made by `server`; whoever sends something with a credential reads here.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic

from provisioner.gateway.file_stamp import Stamp, stamp_of

SecretReader = Callable[[str], bytes | None]
"""Gives the secret of a name; None when there is none."""

_log = logging.getLogger(__name__)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
_LONGEST_BYTES = 8192
_SEEN = re.compile(rb"[\x20-\x7e]+")
_FRESH_SECONDS = 1.0
"""For so long a file is not looked at again: every request may ask for it."""


class Secrets:
    """Gives secrets by name, from `folder` or from `files`, or else what `derived` makes of the name."""

    def __init__(
        self,
        folder: Path | None = None,
        files: Mapping[str, Path] | None = None,
        *,
        derived: SecretReader = lambda _: None,
    ) -> None:
        self._derived = derived
        self._folder = folder
        self._files = dict(files or {})
        self._known: dict[str, _Secret] = {}

    def read(self, name: str) -> bytes | None:
        """The secret of that name; None, told in the log once, when there is none that can be used."""
        secret = self._known.get(name)
        if secret is None:
            secret = self._known[name] = _Secret(name, self._path(name), self._derived(name))
        return secret.value()

    def _path(self, name: str) -> Path | None:
        if name in self._files:
            return self._files[name]
        return self._folder / name if self._folder is not None and _NAME.fullmatch(name) else None


class _Secret:
    """One secret and the file that it was read from."""

    __slots__ = ("_fresh_until", "_name", "_path", "_stamp", "_stands_in", "_trouble", "_value")

    def __init__(self, name: str, path: Path | None, stands_in: bytes | None) -> None:
        self._stands_in = stands_in
        self._name = name
        self._path = path
        self._value: bytes | None = None
        self._stamp: Stamp | None = None
        self._trouble = ""
        self._fresh_until = 0.0

    def value(self) -> bytes | None:
        """What the file holds now. One that can no longer be read leaves what stands in for it, or nothing: it may have
        been taken away."""
        now = monotonic()
        if now >= self._fresh_until:
            self._fresh_until = now + _FRESH_SECONDS
            trouble = self._look()
            if trouble:
                self._value, self._stamp = self._stands_in, None
            is_missing = self._path is None or not self._path.exists()
            if trouble and trouble != self._trouble and not (is_missing and self._stands_in):
                _log.warning("reading the secret `%s`: %s", self._name, trouble, extra={"action": "secret_unusable"})
            self._trouble = trouble
        return self._value

    def _look(self) -> str:
        """Reads the file if it has changed; says what is wrong with it."""
        if self._path is None:
            return "no file is known for this name; hint: set TENANTRY_SECRETS to the folder that holds it"
        try:
            stamp = stamp_of(self._path)
            if stamp == self._stamp:
                return ""
            with self._path.open("rb") as file:
                content = file.read(_LONGEST_BYTES + 1)
        except OSError as error:
            return f"`{self._path}`: {error.strerror}"
        if len(content) > _LONGEST_BYTES:
            return f"`{self._path}` is longer than {_LONGEST_BYTES} bytes"
        value = content.strip()
        if not _SEEN.fullmatch(value):  # a line end in a header field would begin another one
            return f"`{self._path}` does not hold one line of visible ASCII characters"
        self._value, self._stamp = value, stamp
        return ""
