"""A cache of previews on disk: small files named by digest, bounded in size, safe to delete at any time.

Entries are written beside their place and moved there, carry a digest of their content, and are nobody's but the
user's. What is damaged, or cannot be read or written, is as if it were not there. Given to previews by wiring.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import suppress
from pathlib import Path

MAX_BYTES = 256 * 2**20
"""How much may lie in the folder; the entries that were not used for longest go first, down to three quarters."""
_KEPT_SHARE = 0.75
_DIGEST_BYTES = 32


class FileCache:
    """A cache below a folder, which is made when it is needed. `close` looks at its size."""

    def __init__(self, folder: Path, *, max_bytes: int = MAX_BYTES) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._has_grown = False

    def get(self, key: str) -> bytes | None:
        """What was put under the key, None where there is nothing whole."""
        path = self._path(key)
        try:
            data = path.read_bytes()
            os.utime(path)  # used just now
        except OSError:
            return None
        digest, content = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
        return content if hashlib.sha256(content).digest() == digest else None

    def put(self, key: str, content: bytes) -> None:
        """Remember it, whole or not at all."""
        path = self._path(key)
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            number, beside = tempfile.mkstemp(dir=path.parent)
            try:
                with os.fdopen(number, "wb") as stream:
                    stream.write(hashlib.sha256(content).digest() + content)
                Path(beside).replace(path)
            except OSError:
                Path(beside).unlink(missing_ok=True)
                raise
            self._has_grown = True

    def close(self) -> None:
        """Drop what was not used for longest where there is too much."""
        if not self._has_grown:
            return
        with suppress(OSError):
            entries = [(entry.stat(), entry) for entry in self._folder.glob("*/*")]
            size = sum(status.st_size for status, _ in entries)
            if size <= self._max_bytes:
                return
            for status, entry in sorted(entries, key=lambda found: found[0].st_mtime):
                entry.unlink(missing_ok=True)
                size -= status.st_size
                if size <= self._max_bytes * _KEPT_SHARE:
                    return

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / key
