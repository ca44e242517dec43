"""Rules: which change of which field does what to endpoints that run. One module per place where objects stand.

`judge` asks them in the order of `RULES`, the most exact first; sources are named where they are.
"""

from __future__ import annotations

from provisioner.preview.effect import Rule
from provisioner.preview.rules.inner import INNER_RULES
from provisioner.preview.rules.platform import PLATFORM_RULES
from provisioner.preview.rules.published import PUBLISHED_RULES
from provisioner.preview.rules.values import VALUES_RULES
from provisioner.preview.rules.workloads import WORKLOAD_RULES

RULES: tuple[Rule, ...] = (*VALUES_RULES, *PLATFORM_RULES, *PUBLISHED_RULES, *WORKLOAD_RULES, *INNER_RULES)
"""Every rule, in the order in which they are asked."""
