"""Whether a request may leave the installation: under an enabled and acknowledged policy, to a target that lists the
model, with a credential that can be read, and charged to a budget that was reserved before. Asked by `replica.rescue`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from provisioner.domain.snapshot import Fallback, Route
from provisioner.gateway.control.budget import Budgets
from provisioner.gateway.control.targets import Targets
from provisioner.gateway.secrets import Secrets


@dataclass(frozen=True, slots=True)
class Outside:
    """What has to be known before a request may leave the installation."""

    budgets: Budgets
    targets: Targets
    secrets: Secrets

    def use(self, routes: Iterable[Route]) -> None:
        """Prepares for what these routes may do."""
        allowed = [
            route.fallback
            for route in routes
            if route.fallback is not None and route.fallback.is_enabled and route.fallback.is_acknowledged
        ]
        self.budgets.use(fallback.policy for fallback in allowed)
        self.targets.use(fallback.target for fallback in allowed)

    def denial(self, fallback: Fallback) -> str:
        """Why a request may not go outside; empty when it may, and one is spent then."""
        target = fallback.target
        if not fallback.is_enabled:
            return "policy_disabled"
        if not fallback.is_acknowledged:
            return "privacy_unacknowledged"
        if target.credential is not None and self.secrets.read(target.credential) is None:
            return "credential_missing"
        if not self.targets.lists(target, fallback.model):
            return "model_unlisted"
        return "" if self.budgets.spend(fallback.policy) else "budget_exhausted"
