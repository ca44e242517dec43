"""Lanes: the kinds of requests that a gateway without a control plane tells apart, each with a backend of its own.

A lane's name is the model that callers ask for. Two lanes may fall back to the general one, which serves the same kind
of request; the others do not, for a chat model cannot do their work. Types and rules only: `settings` fills them from
the environment, `plan` makes routes of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from provisioner.domain.snapshot import Allowance, Balance

GENERAL = "general"
LANES: Mapping[str, str] = {
    GENERAL: "chat",
    "coder": "chat",
    "vision": "chat",
    "embedding": "embedding",
    "voxtral": "transcription",
}
"""Every lane, and what its model answers."""
FALLING_BACK = frozenset(("coder", "vision"))
"""Lanes whose requests go to the general backend while they have none of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """What the settings say of one lane. `urls` are base URLs, `scheme://host[:port]`; without any it has no backend.

    None is for what was not said. `group` is the queue that it shares with others, `slots` and `depth` are those of its
    queue, and `models` are further names for it.
    """

    name: str
    urls: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    upstream_model: str | None = None
    api_key_file: Path | None = None
    teams: tuple[str, ...] | None = None
    group: str | None = None
    slots: int | None = None
    depth: int | None = None
    balance: Balance | None = None

    def variable(self, what: str) -> str:
        """The name of its setting `what`, as errors tell it."""
        return f"{what}_{self.name.upper()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standalone:
    """All that a gateway serves without a control plane. Without a `keys_file` it is open to everybody who reaches it.

    `allowance` is that of each key; `is_mutual` says that replicas with TLS know our client certificate.
    """

    lanes: tuple[Lane, ...]
    keys_file: Path | None = None
    wait_seconds: float = 900.0
    allowance: Allowance | None = None
    max_tokens: int | None = None
    is_mutual: bool = False

    @property
    def secret_files(self) -> Mapping[str, Path]:
        """The files with the backends' API keys, by the names under which routes refer to them."""
        return {lane.name: lane.api_key_file for lane in self.lanes if lane.api_key_file is not None}
