"""The first administrator's key: taken from its file, or made and written there, when a database has none yet.

A Secret that is mounted read-only is taken as it is. Of several servers that start together one stores its key; the
file of another one that had to make its own goes again. The key itself is never logged.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from provisioner.domain.access import AccessRole
from provisioner.domain.clock import Clock
from provisioner.domain.errors import RejectedError
from provisioner.domain.ids import Ids
from provisioner.domain.key import ApiKey, key_digest, visible_prefix
from provisioner.settings import Settings, read_operator_key
from provisioner.store.interface.keys import KeyStore

BOOTSTRAP = "bootstrap"
"""The name of the first key."""

_SHORTEST = 32

_log = logging.getLogger(__name__)


async def ensure_administrator(keys: KeyStore, settings: Settings, *, clock: Clock, ids: Ids) -> None:
    """See to it that somebody can make keys. RejectedError when the file can neither be read nor be written, or holds
    a key that could be guessed."""
    file, now = settings.operator_key_file, clock.now()
    if await keys.has_administrator(now):
        await _compare(keys, settings, clock)
        return
    is_ours = write_first(file, ids.secret())
    secret = read_operator_key(settings)
    if len(secret) < _SHORTEST:
        raise RejectedError(
            f"reading the operator key `{file}`: shorter than characters: {_SHORTEST}",
            reason="WeakSecret",
            hint=f"make one with `openssl rand -hex 32 > {file}`",
        )
    known = await keys.find(key_digest(secret))
    if known is not None and not known.administers(now):
        _log.error("no key administers this installation, nor does that in %s any longer: put a new one there", file)
    elif known is None and await keys.add_first(_key(secret, clock=clock, ids=ids), now):
        _log.info("the key in %s administers this installation, under the name %s", file, BOOTSTRAP)
    elif is_ours and await keys.find(key_digest(secret)) is None:
        # Another server with a file of its own was quicker: what we wrote opens nothing.
        file.unlink(missing_ok=True)
        _log.info("another server has stored the first key of this installation")


def write_first(file: Path, secret: str) -> bool:
    """Write a secret that only we may read, whole; False when there is a file already, which is kept. RejectedError
    where it cannot be written."""
    try:
        return not file.exists() and _write(file, secret)
    except OSError as error:
        raise RejectedError(
            f"writing the operator key `{file}`: {error.strerror}",
            reason="NoSecret",
            hint="put a key there, or name another file with TENANTRY_OPERATOR_KEY_FILE",
        ) from error


def _write(file: Path, secret: str) -> bool:
    for folder in reversed(file.parents):
        if not folder.is_dir():
            folder.mkdir(mode=0o700, exist_ok=True)
    draft = file.with_name(f".{file.name}.{os.getpid()}.new")
    draft.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
            opened.write(secret + "\n")
            opened.flush()
            os.fsync(opened.fileno())
        try:
            file.hardlink_to(draft)
        except FileExistsError:  # another process was quicker
            return False
    finally:
        draft.unlink(missing_ok=True)
    return True


async def _compare(keys: KeyStore, settings: Settings, clock: Clock) -> None:
    """Tell where the file holds a key that opens nothing, so that nobody wonders."""
    try:
        secret = read_operator_key(settings)
    except RejectedError:
        return  # the key was taken away once others were made
    found = await keys.find(key_digest(secret))
    if found is None or not found.is_usable(clock.now()):
        _log.warning("the key in %s is no key of this installation, or no longer", settings.operator_key_file)


def _key(secret: str, *, clock: Clock, ids: Ids) -> ApiKey:
    return ApiKey(
        id=ids.key(),
        name=BOOTSTRAP,
        digest=key_digest(secret),
        prefix=visible_prefix(secret),
        tenant=None,
        created_at=clock.now(),
        role=AccessRole.ADMIN,
    )
