"""What differs between units though it means the same: ids, tenants, hostnames, revisions. Placeholders stand for it.

With them a thousand endpoints that change alike are one change, and a new revision of a workload is the same workload.
`compare` puts them in before it looks for differences. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from provisioner.domain.plan import EndpointPlan
from provisioner.rendering.values import claim_name

REVISION, VERSION, CLAIM = "{revision}", "{version}", "{claim}"
_ORDINAL = re.compile(r"\br[0-9]+-(?=\{revision\})")


@dataclass(frozen=True, slots=True)
class Placeholders:
    """Texts of one unit on one side, each with what stands for it, the longest first."""

    pairs: tuple[tuple[str, str], ...] = ()

    def in_value(self, value: Any) -> Any:
        """The value with placeholders in its texts; keys are left alone."""
        if isinstance(value, str):
            return self.in_text(value)
        if isinstance(value, Mapping):
            return {key: self.in_value(held) for key, held in value.items()}
        return [self.in_value(held) for held in value] if isinstance(value, list) else value

    def in_text(self, text: str) -> str:
        """The text with placeholders for whole words."""
        for word, placeholder in self.pairs:
            if word in text:
                text = _pattern(word).sub(placeholder, text)
        return text

    def in_bytes(self, text: bytes) -> bytes:
        """Much quicker, and not only for whole words: good enough to tell what is alike, too crude to be shown."""
        for word, placeholder in self.pairs:
            text = text.replace(word.encode(), placeholder.encode())
        return text

    def word(self, placeholder: str) -> str:
        """The text that a placeholder stands for, empty for none."""
        return next((word for word, known in self.pairs if known == placeholder), "")

    def out_of(self, text: str) -> str:
        """The text as it was before."""
        for word, placeholder in self.pairs:
            text = text.replace(placeholder, word)
        return text


def placeholders(words: Iterable[tuple[str, str]]) -> Placeholders:
    """Placeholders for words; the first says what stands for a word that comes twice."""
    found: dict[str, str] = {}
    for word, placeholder in words:
        if word:
            found.setdefault(word, placeholder)
    return Placeholders(tuple(sorted(found.items(), key=lambda pair: (-len(pair[0]), pair))))


def of_plan(plan: EndpointPlan | None) -> Placeholders:
    """What stands for the texts that are an endpoint's own."""
    if plan is None:
        return Placeholders()
    return placeholders(
        (
            (plan.address.hostname, _pattern_of(plan.address.hostname, plan)),
            (plan.address.tenant_domain, _pattern_of(plan.address.tenant_domain, plan)),
            (claim_name(plan), CLAIM),
            (plan.endpoint, "{endpoint}"),
            (plan.pool or "", "{pool}"),
            (plan.runtime.revision, REVISION),
            (plan.placement.project, "{project}"),
            (plan.tenant, "{tenant}"),
            (dashed(plan.tier_version), VERSION),
        )
    )


def _pattern_of(host: str, plan: EndpointPlan) -> str:
    """What a name is made of, so that another domain is a difference and another tenant is none."""
    own = {plan.endpoint: "{endpoint}", plan.name: "{name}", plan.tenant: "{tenant}"}
    return ".".join(own.get(label, label) for label in host.split("."))


def dashed(version: str) -> str:
    """A tier's version as it stands in names of what is published with it."""
    return f"-{version.replace('.', '-')}"


def without_ordinals(text: str) -> str:
    """The text with one name for what there is once for each replica."""
    return _ORDINAL.sub("r{n}-", text)


@lru_cache(maxsize=4096)
def _pattern(word: str) -> re.Pattern[str]:
    before = "" if word.startswith("-") else r"(?<![A-Za-z0-9])"
    return re.compile(rf"{before}{re.escape(word)}(?![A-Za-z0-9])")
