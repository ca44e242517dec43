"""Which flags a model server surely does not have: slips of its own, and those that only other engines know."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache

from provisioner.catalog.vllm_flags import VLLM_FLAGS, is_known, positive
from provisioner.lint.joins.slips import Names
from provisioner.lint.model_servers import Engine
from provisioner.lint.server_kinds import EngineKind
from provisioner.lint.server_words import ELSEWHERE, FLAGS, LLAMA_CPP_SHARED

_ABBREVIATES = frozenset((EngineKind.SGLANG, EngineKind.TRITON))
"""Engines whose parsers take the beginning of a flag for the flag."""
_LISTS: Mapping[EngineKind, Collection[str]] = {**FLAGS, EngineKind.VLLM: VLLM_FLAGS}


@cache
def _names(kind: EngineKind) -> Names:
    return Names(_LISTS.get(kind, ()))


def _may_know(engine: Engine, name: str) -> bool:
    """Whether an engine has a flag, or nobody can say."""
    kind, known = engine.kind, _LISTS.get(engine.kind, ())
    if kind is EngineKind.VLLM:
        return is_known(name) or " " in name
    if kind is EngineKind.LLAMA_CPP:
        return name in LLAMA_CPP_SHARED
    is_newer = kind is EngineKind.MISTRALRS and "mistralrs-server" not in engine.container.arguments
    is_written_short = kind in _ABBREVIATES and any(flag.startswith(name) for flag in known)
    return not known or is_newer or is_written_short or name in known or " " in name


def _plain(engine: Engine, name: str) -> str:
    return positive(name) if engine.kind is EngineKind.VLLM else name


def misspelt(engine: Engine, name: str) -> str | None:
    """The flag of the engine that was probably meant, None for a flag that it has or may have."""
    if not name.startswith("--") or _may_know(engine, name) or is_foreign(engine, name):
        return None
    return _names(engine.kind).meant_by(_plain(engine, name))


def is_foreign(engine: Engine, name: str) -> bool:
    """Whether a flag is another engine's and not this one's."""
    if engine.kind in ELSEWHERE.get(name, ()):
        return True
    if not name.startswith("--") or _may_know(engine, name):
        return False
    return any(name in flags for flags in _LISTS.values())
