"""The key of a tenant's claims of priority: the same for the same two names, and for no others."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from provisioner.domain.key import priority_key

NAMES = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=40)


@given(one=st.tuples(NAMES, NAMES), other=st.tuples(NAMES, NAMES))
def test_a_key_is_of_one_tenant_of_one_installation(one: tuple[str, str], other: tuple[str, str]) -> None:
    """Ledger: ADM-14."""
    assert (priority_key(*one) == priority_key(*other)) == (one == other)
    assert len(priority_key(*one)) == 64
