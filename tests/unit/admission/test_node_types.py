"""What a project may claim, with the Platform's own meaning of allow-lists and quotas."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.admission.node_types import is_allowed, quota_denial

NAMES = st.text("abc.*x-", min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("node_type", "allowed", "expected"),
    [
        ("aws.large", None, True),
        ("aws.large", [], False),
        ("aws.large", ["aws.large"], True),
        ("aws.large", ["aws.*"], True),
        ("awsx.large", ["aws.*"], False),
        ("aws.large", ["AWS.*"], False),
        ("aws.Large", ["aws.large"], False),
        ("aws.large", ["*"], False),
        ("aws.large", ["metal3.gpu-h100", "aws.large"], True),
    ],
)
def test_allow_lists_mean_what_they_mean_on_the_platform(
    node_type: str, allowed: Sequence[str] | None, expected: bool
) -> None:
    """Ledger: TEN-10. Unset is all, an empty list none, `aws.*` all of a provider, case-sensitive."""
    assert is_allowed(node_type, allowed) is expected


@given(node_type=NAMES, allowed=st.lists(NAMES), more=st.lists(NAMES))
def test_a_longer_list_never_forbids_what_a_shorter_one_allowed(
    node_type: str, allowed: list[str], more: list[str]
) -> None:
    """Ledger: TEN-10."""
    assert is_allowed(node_type, allowed) <= is_allowed(node_type, [*more, *allowed])


def test_a_denial_names_scope_resource_and_limit() -> None:
    """Ledger: TEN-11."""
    assert quota_denial("nodeclaims", wanted=5, limit=4) == "project nodeclaims limit of 4 would be exceeded"
    assert quota_denial("nodeclaims", wanted=4, limit=4) is None
