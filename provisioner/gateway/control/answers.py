"""Reads the answers of the control plane and of targets outside: whole, and no longer than they may be. Used by
`subscription`, `doors` and `targets`.
"""

from __future__ import annotations

import aiohttp


async def read_whole(answer: aiohttp.ClientResponse, *, limit_bytes: int) -> bytes:
    """The body. Raises `ValueError` for one that is longer, and what aiohttp raises for one that breaks off."""
    content = bytearray()
    async for piece in answer.content.iter_any():
        content += piece
        if len(content) > limit_bytes:
            raise ValueError(f"the answer is longer than the limit in bytes: {limit_bytes}")
    return bytes(content)
