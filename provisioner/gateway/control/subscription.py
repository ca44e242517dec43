"""Keeps the gateway's snapshot fresh: a long poll to the control plane, and a copy on disk for starts without it.

Every question tells the gateway's id, so that it counts among those that live. What arrives is decoded whole, in a
thread, then used whole. Any failure (no control plane, a bad answer, a full disk) leaves the last good snapshot in use
and is counted. The file holds key digests, never keys, and only its owner may read it. Made and run by `server`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from glob import escape
from pathlib import Path

import aiohttp
from pydantic import ValidationError

from provisioner.domain.clock import Clock
from provisioner.gateway.config import ControlPlane, Limits
from provisioner.gateway.control.answers import read_whole
from provisioner.gateway.control.decoding import decode_directory
from provisioner.gateway.directory import Directory
from provisioner.gateway.disk import on_disk, remove_left
from provisioner.gateway.operator.counters import Counters
from provisioner.gateway.trouble import Trouble

_log = logging.getLogger(__name__)

_POLL_SECONDS = 25
_ANSWER_SECONDS = _POLL_SECONDS + 15
_RETRY_SECONDS = 1.0


class Subscription:
    """Fetches snapshots and hands the directory of each new one to `publish`. `gateway` is the gateway's id."""

    def __init__(
        self,
        control: ControlPlane,
        limits: Limits,
        gateway: str,
        *,
        clock: Clock,
        counters: Counters,
        publish: Callable[[Directory], None],
    ) -> None:
        self._control = control
        self._gateway = gateway
        self._limits = limits
        self._clock = clock
        self._counters = counters
        self._publish = publish
        self._etag: str | None = None
        self._unstored = b""
        """What is in use, where the disk has not taken it yet."""
        self._trouble = Trouble()
        self._confirmed_at: datetime | None = None

    def age(self) -> timedelta | None:
        """How long ago the control plane last confirmed the snapshot in use; None without one."""
        return None if self._confirmed_at is None else self._clock.now() - self._confirmed_at

    def is_too_old(self) -> bool:
        """Whether the snapshot in use is past the age that the configuration allows."""
        limit, age = self._control.snapshot_max_age_seconds, self.age()
        return limit is not None and age is not None and age > timedelta(seconds=limit)

    def load(self) -> None:
        """Starts with the copy on disk, if there is a usable one."""
        path = self._control.snapshot_file
        try:
            directory = decode_directory(path.read_bytes())
            self._confirmed_at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            self._note_failure("StoredCopyUnusable", error)
            return
        self._use(directory)

    async def run(self) -> None:
        """Polls until it is cancelled."""
        headers = {"Authorization": f"Bearer {self._control.credential}", "Tenantry-Gateway": self._gateway}
        timeout = aiohttp.ClientTimeout(total=None, connect=5.0, sock_read=_ANSWER_SECONDS)
        async with aiohttp.ClientSession(headers=headers, timeout=timeout) as session:
            while True:
                try:
                    await self._poll(session)
                except (aiohttp.ClientError, TimeoutError) as error:
                    self._note_failure("ControlPlaneAway", error)
                    await asyncio.sleep(_RETRY_SECONDS)
                except (ValueError, OSError) as error:
                    self._note_failure("SnapshotUnusable", error)
                    await asyncio.sleep(_RETRY_SECONDS)

    async def _poll(self, session: aiohttp.ClientSession) -> None:
        headers = {"If-None-Match": self._etag} if self._etag else {}
        query = {"wait": str(_POLL_SECONDS)}
        async with session.get(
            f"{self._control.url}/internal/snapshots", headers=headers, params=query, allow_redirects=False
        ) as answer:
            if answer.status == 304:
                await self._confirm()
                return
            if answer.status != 200:
                raise ValueError(f"the control plane answered with status {answer.status}")
            content = await read_whole(answer, limit_bytes=self._limits.snapshot_bytes)
            etag = answer.headers.get("ETag")
        self._use(await asyncio.to_thread(decode_directory, content))
        self._etag = etag
        self._note_success()
        self._unstored = content
        await self._store()
        if etag is None:
            await asyncio.sleep(_RETRY_SECONDS)  # without a version there is nothing to wait for a change of

    def _note_success(self) -> datetime:
        if self._trouble.ends():
            _log.info("the control plane is back", extra={"action": "control_plane_back"})
        self._confirmed_at = self._clock.now()
        return self._confirmed_at

    async def _store(self) -> None:
        await on_disk(_store, self._control.snapshot_file, self._unstored)
        self._unstored = b""

    async def _confirm(self) -> None:
        self._confirmed_at = self._clock.now()
        if self._unstored:
            await self._store()
        moment = self._note_success().timestamp()
        with contextlib.suppress(FileNotFoundError):
            await asyncio.to_thread(os.utime, self._control.snapshot_file, (moment, moment))

    def _use(self, directory: Directory) -> None:
        self._publish(directory)
        self._counters.snapshots += 1
        snapshot = directory.snapshot
        _log.info(
            "using snapshot %d",
            snapshot.version,
            extra={"action": "snapshot_used", "routes": len(snapshot.routes), "keys": len(snapshot.keys)},
        )

    def _note_failure(self, reason: str, error: Exception) -> None:
        self._counters.snapshot_failures[reason] += 1
        shown = type(error).__name__ if isinstance(error, ValidationError) else str(error)
        if self._trouble.begins(reason):
            _log.warning("keeping the last snapshot: %s", reason, extra={"action": "snapshot_kept", "error": shown})


def _store(path: Path, content: bytes) -> None:
    """Replaces the file in one step; readable by its owner only from its first moment."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)  # a disk that is full must not stay so for it
        raise
    remove_left(path.parent.glob(f"{escape(path.name)}.*.new"))
