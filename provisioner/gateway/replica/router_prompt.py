"""What a local router is told of a prompt in the place of tokens: the check sums of its pieces, in order.

Two prompts that begin alike have the same first pieces, which is all that a router compares. So no engine has to
tokenize a prompt before one of them answers it. Pure. Used by `router_connection`.
"""

from __future__ import annotations

from zlib import crc32

import msgspec

READ_BYTES = 256 * 1024
"""How much of a request is looked at: two prompts that are alike for so long belong to the same replica."""
_PIECE_BYTES = 64
"""About 16 tokens of English: the block by which vLLM keeps what it has computed."""
_NOT_NEGATIVE = 0x7FFFFFFF
_ABSENT = msgspec.Raw()


class _Prompt(msgspec.Struct, gc=False):
    """The members that make the prompt, in the order in which chat templates print them."""

    model: msgspec.Raw = _ABSENT
    instructions: msgspec.Raw = _ABSENT
    tools: msgspec.Raw = _ABSENT
    messages: msgspec.Raw = _ABSENT
    prompt: msgspec.Raw = _ABSENT
    input: msgspec.Raw = _ABSENT


_decode = msgspec.json.Decoder(_Prompt).decode


def prompt_pieces(body: bytes | bytearray) -> list[int]:
    """The pieces of the prompt in `body`, the first bytes of a JSON object; of all of it when it is cut off."""
    try:
        found = _decode(body)
    except msgspec.DecodeError:
        text = bytes(body)
    else:
        parts = (found.model, found.instructions, found.tools, found.messages, found.prompt, found.input)
        text = b"".join(bytes(part) for part in parts)
    return [crc32(text[at : at + _PIECE_BYTES]) & _NOT_NEGATIVE for at in range(0, len(text), _PIECE_BYTES)]
