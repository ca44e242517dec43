"""Where the snapshots of a gateway without a control plane come from: its lanes, and its keys file as it is now.

The file is looked at again and again, since keys come and go while requests run. One that is broken at the start stops
the start; one that breaks later leaves the keys as they were, counted and told in the log. Made and run by `server`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from provisioner.domain.clock import Clock
from provisioner.domain.errors import RejectedError
from provisioner.domain.snapshot import KeyDigest, Snapshot
from provisioner.gateway.directory import Directory
from provisioner.gateway.file_stamp import Stamp, stamp_of
from provisioner.gateway.operator.counters import Counters
from provisioner.gateway.standalone.keys import KeysError, parse_keys
from provisioner.gateway.standalone.lane import Standalone
from provisioner.gateway.standalone.plan import idle_settings, plan_groups, plan_routes
from provisioner.gateway.trouble import Trouble

_log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.5
_LONGEST_BYTES = 64 * 1024 * 1024


class StandaloneSource:
    """Makes snapshots and hands the directory of each to `publish`."""

    def __init__(
        self, standalone: Standalone, *, clock: Clock, counters: Counters, publish: Callable[[Directory], None]
    ) -> None:
        """Raises `RejectedError` for lanes that contradict each other."""
        self._standalone = standalone
        self._clock = clock
        self._counters = counters
        self._publish = publish
        self._routes = plan_routes(standalone, clock.now())
        self._groups = plan_groups(standalone)
        self._stamp: Stamp | None = None
        self._trouble = Trouble()
        self._version = 0

    def load(self) -> None:
        """Publishes the first snapshot. Raises `RejectedError` for a keys file that cannot be used."""
        if idle := idle_settings(self._standalone):
            _log.warning("settings without effect, for their lanes have no backend: %s", ", ".join(idle))
        file = self._standalone.keys_file
        if file is None:
            allowance = self._standalone.allowance
            self._use(self._make(() if allowance is None else (KeyDigest(digest="", tenant="", allowance=allowance),)))
            return
        try:
            self._stamp = stamp_of(file)
            self._use(self._read(file))
        except (OSError, KeysError) as error:
            raise RejectedError(
                f"reading TENANTRY_KEYS_FILE `{file}`: {_told(error)}",
                reason="BadKeysFile",
                hint='a key is a line of it: {"sha256": "<hex of the whole key>", "tenant": "acme"}',
            ) from error

    async def run(self) -> None:
        """Follows the keys file until it is cancelled."""
        file = self._standalone.keys_file
        while file is not None:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                stamp = stamp_of(file)
                if stamp != self._stamp:
                    self._stamp = stamp  # now, so that a broken file is not read again until it changes
                    self._use(await asyncio.to_thread(self._read, file))
                    self._trouble.ends()
            except KeysError as error:
                self._note_trouble(file, str(error))
            except OSError as error:
                self._stamp = None  # a file that can be read again may look as it did before
                self._note_trouble(file, _told(error))

    def age(self) -> timedelta | None:
        """There is nobody to confirm a snapshot, so it has no age."""
        return None

    def is_too_old(self) -> bool:
        """Never."""
        return False

    def _read(self, file: Path) -> Directory:
        """What is served with the keys of the file. Raises `OSError` and `KeysError`."""
        with file.open("rb") as stream:
            content = stream.read(_LONGEST_BYTES + 1)
        if len(content) > _LONGEST_BYTES:
            raise KeysError(f"it is larger than the limit in bytes: {_LONGEST_BYTES}")
        return self._make(parse_keys(content, self._standalone.allowance))

    def _make(self, keys: tuple[KeyDigest, ...]) -> Directory:
        self._version += 1
        now = self._clock.now()
        return Directory(
            Snapshot(version=self._version, created_at=now, routes=self._routes, keys=keys, groups=self._groups)
        )

    def _use(self, directory: Directory) -> None:
        self._publish(directory)
        self._counters.snapshots += 1
        keys = len(directory.snapshot.keys)
        _log.info(
            "serving models: %s; keys: %s",
            ", ".join(route.alias for route in self._routes),
            keys if self._standalone.keys_file else "none, open to all who reach it",
            extra={"action": "snapshot_used", "routes": len(self._routes), "keys": keys},
        )

    def _note_trouble(self, file: Path, trouble: str) -> None:
        if self._trouble.begins(trouble):
            self._counters.snapshot_failures["KeysUnusable"] += 1
            _log.warning("keeping the keys: reading `%s`: %s", file, trouble, extra={"action": "keys_kept"})


def _told(error: OSError | KeysError) -> str:
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else str(error)
