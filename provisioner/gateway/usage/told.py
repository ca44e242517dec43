"""What an engine tells of a request, in the answers that OpenAI's API has: tokens and how the first choice ended. Pure.

Chat, completions and embeddings count `prompt_tokens` and `completion_tokens`, `/v1/responses` and transcriptions
`input_tokens` and `output_tokens`; a streamed response has them in its `response.completed`. What is not told, or is no
number of tokens, stays None.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from provisioner.gateway.usage.members import Path, Wanted
from provisioner.gateway.usage.plain_answer import ABSENT, PlainAnswer
from provisioner.gateway.usage.tally import Tokens

WANTED: Final[Wanted] = {
    "usage": None,
    "response": {"usage": None},
    "choices": {0: {"index": None, "finish_reason": None}},
}
"""What is read here, for a message that is too long to be parsed whole."""

_MOST_TOKENS: Final = 10**12
"""As in `admission.usage`, which refuses more."""

_REASON_CHARACTERS: Final = 64
"""Of a finish reason, which is an engine's word and goes into records."""


def told(message: dict[str, Any], before: Tokens) -> Tokens:
    """What is known after an answer or event of which `before` was known: the last usage and the first end count."""
    prompt, completion = _tokens(_usage(message))
    if prompt is None and completion is None:
        prompt, completion = before.prompt, before.completion
    return Tokens(prompt, completion, before.finish_reason or _finish_reason(message))


def told_plainly(answer: PlainAnswer) -> Tokens:
    """What is known after a whole answer."""
    usage, prompt, completion = answer.usage, None, None
    if usage is None and answer.response is not None:
        usage = answer.response.usage
    if usage is not None:
        prompt_told, completion_told = usage.prompt_tokens, usage.completion_tokens
        prompt, completion = _counted(
            usage.input_tokens if prompt_told is ABSENT else prompt_told,
            usage.output_tokens if completion_told is ABSENT else completion_told,
            usage.total_tokens,
        )
    for choice in answer.choices or ():
        if choice.index == 0 and type(choice.finish_reason) is str:
            return Tokens(prompt, completion, choice.finish_reason[:_REASON_CHARACTERS])
    return Tokens(prompt, completion)


def message_of(members: Mapping[Path, Any]) -> dict[str, Any]:
    """A message with these `members` of it, those of `WANTED`."""
    choice = {path[2]: value for path, value in members.items() if path[0] == "choices"}
    usage = members.get(("usage",))
    return {"usage": members.get(("response", "usage")) if usage is None else usage, "choices": [choice]}


def has_content(event: dict[str, Any]) -> bool:
    """Whether an event of a stream carries a piece of the answer, of whatever kind: text, reasoning, a tool's call. One
    that only says whose turn it is (`role`), or that something began, carries none."""
    if event.get("delta"):
        return True
    for choice in _choices(event):
        delta = choice.get("delta")
        if choice.get("text") or (type(delta) is dict and any(delta[name] for name in delta if name != "role")):
            return True
    return False


def tells_usage_only(event: dict[str, Any]) -> bool:
    """Whether an event is the extra last one of `stream_options.include_usage`."""
    return event.get("choices") == [] and type(event.get("usage")) is dict


def _usage(message: dict[str, Any]) -> object:
    """Its own, or that of the response that it carries."""
    usage = message.get("usage")
    if usage is None and type(response := message.get("response")) is dict:
        return response.get("usage")
    return usage


def _tokens(usage: object) -> tuple[int | None, int | None]:
    if type(usage) is not dict:
        return None, None
    prompt = usage.get("prompt_tokens", usage.get("input_tokens"))
    completion = usage.get("completion_tokens", usage.get("output_tokens"))
    return _counted(prompt, completion, usage.get("total_tokens"))


def _counted(prompt: object, completion: object, total: object) -> tuple[int | None, int | None]:
    """The numbers among what was told. A total that is the prompt's says that there is no completion: so embeddings are
    told."""
    prompt, completion = _number(prompt), _number(completion)
    if completion is None and prompt is not None and total == prompt:
        completion = 0
    return prompt, completion


def _finish_reason(message: dict[str, Any]) -> str | None:
    choices = message.get("choices")
    if type(choices) is list:
        for choice in choices:
            if type(choice) is dict and choice.get("index", 0) == 0:
                reason = choice.get("finish_reason")
                if type(reason) is str:
                    return reason[:_REASON_CHARACTERS]
    return None


def _choices(message: dict[str, Any]) -> list[dict[str, Any]]:
    choices = message.get("choices")
    return [choice for choice in choices if type(choice) is dict] if type(choices) is list else []


def _number(told: object) -> int | None:
    return told if type(told) is int and 0 <= told <= _MOST_TOKENS else None
