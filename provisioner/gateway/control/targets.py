"""What targets outside say that they serve: asked now and then in the background, remembered with its age.

A request goes to a target only while its own list names the model that the policy maps to. Nothing of a request goes
along with the question but our credential for the target. Run by `link`; `outside` asks it.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Iterable
from contextlib import suppress

import aiohttp
from pydantic_core import from_json

from provisioner.domain.snapshot import Backend
from provisioner.gateway.control.answers import read_whole
from provisioner.gateway.secrets import Secrets

FRESH_SECONDS = 600.0
"""How long a list counts after it was read."""

_ASK_EVERY_SECONDS = 60.0
_ASK_AGAIN_SECONDS = 5.0
"""After no answer, or one that is no list."""
_ANSWER_SECONDS = 10.0
_MOST_BYTES = 4 * 1024 * 1024

_log = logging.getLogger(__name__)


class Targets:
    """The models of each target."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._authorities = ssl.create_default_context()
        self._loop = asyncio.get_running_loop()
        self._models: dict[Backend, frozenset[str]] = {}
        self._read_at: dict[Backend, float] = {}
        self._due: dict[Backend, float] = {}
        self._news = asyncio.Event()

    def use(self, targets: Iterable[Backend]) -> None:
        """From now on requests may go to these."""
        self._due = {target: self._due.get(target, 0.0) for target in targets}
        for known in self._models.keys() - self._due.keys():
            del self._models[known], self._read_at[known]
        self._news.set()

    def lists(self, target: Backend, model: str) -> bool:
        """Whether the target's last list, not too old, names the model."""
        is_fresh = self._loop.time() < self._read_at.get(target, float("-inf")) + FRESH_SECONDS
        return is_fresh and model in self._models.get(target, ())

    async def run(self) -> None:
        """Asks until it is cancelled."""
        timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            while True:
                self._news.clear()
                now = self._loop.time()
                await asyncio.gather(*(self._ask(session, target) for target, due in self._due.items() if due <= now))
                due = min(self._due.values(), default=None)
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(due):
                        await self._news.wait()

    async def _ask(self, session: aiohttp.ClientSession, target: Backend) -> None:
        try:
            models = await self._read(session, target)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            rest = _ASK_AGAIN_SECONDS
            told = {"action": "target_unlisted", "target": target.host, "error": str(error) or type(error).__name__}
            _log.warning("asking %s outside for its models: no list", target.host, extra=told)
        else:
            rest = _ASK_EVERY_SECONDS
            self._models[target], self._read_at[target] = models, self._loop.time()
        if target in self._due:
            self._due[target] = self._loop.time() + rest

    async def _read(self, session: aiohttp.ClientSession, target: Backend) -> frozenset[str]:
        headers = {"Host": target.host}
        if target.credential is not None:
            secret = self._secrets.read(target.credential)
            if secret is None:
                raise ValueError("the credential of the target cannot be read")
            headers["Authorization"] = f"Bearer {secret.decode()}"
        url = f"{'https' if target.tls else 'http'}://{target.address}/v1/models"
        asked = session.get(
            url,
            headers=headers,
            allow_redirects=False,
            ssl=self._authorities,
            server_hostname=target.host if target.tls else None,
        )
        async with asked as answer:
            if answer.status != 200:
                raise ValueError(f"status {answer.status}")
            listed = from_json(await read_whole(answer, limit_bytes=_MOST_BYTES))
        items = listed.get("data") if isinstance(listed, dict) else None
        if not isinstance(items, list):
            raise ValueError("the answer is no list of models")
        return frozenset(item["id"] for item in items if isinstance(item, dict) and isinstance(item.get("id"), str))
