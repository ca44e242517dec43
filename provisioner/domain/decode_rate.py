"""How long an answer takes, and how long an answer there is time for: both follow from the rate of an engine. Pure.

An engine makes the tokens of one answer one after the other. So a bound on an answer's length and a bound on its time
are one decision, and a change of the rate moves both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

MARGIN_SECONDS = 60.0
"""What an answer takes besides: an engine without a free slot, reading the prompt, the way there and back."""


@dataclass(frozen=True, slots=True)
class DecodeRate:
    """Tokens of one answer that an engine makes in a second; unless somebody has measured it, that of a large model on
    processors alone."""

    tokens_per_second: float = 3.4

    def seconds_for(self, tokens: int) -> float:
        """How long an answer of so many tokens may take."""
        return tokens / self.tokens_per_second + MARGIN_SECONDS

    def tokens_within(self, seconds: float) -> int:
        """The longest answer that there is time for; one token at least."""
        return max(1, math.floor((seconds - MARGIN_SECONDS) * self.tokens_per_second))
