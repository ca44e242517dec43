"""The control plane's doors for what a gateway asks beside snapshots and usage: wake endpoints, reserve budgets, leave.

Each question is short and bounded in time, and no request waits for one. Made by `server`; `Waker` and `Budgets` ask.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import aiohttp
from pydantic_core import from_json

from provisioner.gateway.config import ControlPlane
from provisioner.gateway.control.answers import read_whole

_ANSWER_SECONDS = 5.0
_MOST_BYTES = 64 * 1024


class DoorClosedError(Exception):
    """No answer that helps. `is_final` when asking again the same would be answered the same (a status 4xx)."""

    def __init__(self, reason: str, *, is_final: bool) -> None:
        super().__init__(reason)
        self.is_final = is_final


class Doors:
    """Asks the control plane, with the gateways' credential."""

    def __init__(self, control: ControlPlane) -> None:
        self._base = f"{control.url}/internal"
        self._headers = {"Authorization": f"Bearer {control.credential}"}
        self._session: aiohttp.ClientSession | None = None

    async def post(self, door: str, document: Mapping[str, object]) -> Mapping[str, Any]:
        """The answer to a question, empty where it has no content. Raises `DoorClosedError`."""
        content = await self._ask("POST", door, document)
        if not content:
            return {}
        try:
            answer = from_json(content)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise DoorClosedError("the answer is no JSON object", is_final=False)
        return answer

    async def delete(self, door: str) -> None:
        """Takes something back. Raises `DoorClosedError`."""
        await self._ask("DELETE", door, None)

    async def close(self) -> None:
        """Closes its connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _ask(self, method: str, door: str, document: Mapping[str, object] | None) -> bytes:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS)
            self._session = aiohttp.ClientSession(headers=self._headers, timeout=timeout)
        asked = self._session.request(method, f"{self._base}/{door}", json=document, allow_redirects=False)
        try:
            async with asked as answer:
                if not 200 <= answer.status < 300:
                    raise DoorClosedError(f"status {answer.status}", is_final=400 <= answer.status < 500)
                return await read_whole(answer, limit_bytes=_MOST_BYTES)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise DoorClosedError(str(error) or type(error).__name__, is_final=False) from error
