"""The smallest real request of each kind of model, and how its answer is known to be one. Pure.

The control plane proves a new replica with it, the gateway one that comes back.
"""

from __future__ import annotations

import io
import math
import struct
import wave
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

LONGEST_ANSWER_TOKENS = 1
"""Of a chat."""

_RATE_HZ = 16_000
_TONE_HZ = 220.0
_LIMIT_TEXT_BYTES = 4096
_LIMIT_WORDS = (b"max_tokens", b"max_completion_tokens", b"max_output_tokens", b"context", b"too long", b"rate limit")


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallRequest:
    """A path below the API's `/v1` and either a JSON body or a form with one file."""

    path: str
    json: Mapping[str, Any] | None = None
    form: Mapping[str, str] | None = None
    audio: bytes | None = None


def small_request(kind: str, model: str) -> SmallRequest:
    """One token of chat, one embedding, or one second of audio to write down."""
    if kind == "embedding":
        return SmallRequest(path="/embeddings", json={"model": model, "input": "ok"})
    if kind == "transcription":
        return SmallRequest(path="/audio/transcriptions", form={"model": model}, audio=one_second_of_audio())
    messages = [{"role": "user", "content": "Say ok."}]
    content = {"model": model, "messages": messages, "max_tokens": LONGEST_ANSWER_TOKENS}
    return SmallRequest(path="/chat/completions", json=content)


def is_answer(kind: str, body: Any) -> bool:
    """Whether a 200's JSON body answers a small request of this kind. What the model said does not count: one token may
    end by length, be empty, or be the beginning of a thought."""
    if not isinstance(body, dict):
        return False
    if kind == "embedding":
        return isinstance(body.get("data"), list) and bool(body["data"])
    if kind == "transcription":
        return isinstance(body.get("text"), str)
    return isinstance(body.get("choices"), list) and bool(body["choices"])


def is_about_limits(status: int, body: bytes) -> bool:
    """Whether a refusal of the small request speaks of limits, of rate or of length: a replica that weighs requests is
    well. The words are those of the engines (`max_tokens` of vLLM, `context size` of llama.cpp)."""
    if status in (413, 429):
        return True
    text = body[:_LIMIT_TEXT_BYTES].lower()
    return status in (400, 422) and any(word in text for word in _LIMIT_WORDS)


def served_models(body: Any) -> tuple[str, ...]:
    """The model ids of a `/v1/models` answer."""
    data = body.get("data") if isinstance(body, dict) else None
    return tuple(str(item.get("id")) for item in data if isinstance(item, dict)) if isinstance(data, list) else ()


@cache
def one_second_of_audio() -> bytes:
    """A WAV file of one second: a hum that swells and fades, 16 kHz mono, since engines refuse an empty file."""
    samples = (
        int(8000 * math.sin(math.pi * n / _RATE_HZ) * math.sin(2 * math.pi * _TONE_HZ * n / _RATE_HZ))
        for n in range(_RATE_HZ)
    )
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(_RATE_HZ)
        sound.writeframes(b"".join(struct.pack("<h", sample) for sample in samples))
    return file.getvalue()
