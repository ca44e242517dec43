"""What names a set of workers, and what their router is told."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from provisioner.domain.snapshot import Backend
from provisioner.gateway.replica.router_process import router_arguments
from provisioner.gateway.replica.worker_set import worker_set

BACKENDS = tuple(
    Backend(host=f"r{n}.example.com", address=f"10.0.0.{n}:8000", tls=False, credential="engine-key") for n in range(4)
)


@given(st.permutations(BACKENDS))
def test_same_set_in_any_order_has_the_same_digest(backends: list[Backend]) -> None:
    """Ledger: ROU-04."""
    assert worker_set(backends).digest == worker_set(BACKENDS).digest
    assert worker_set(backends) == worker_set(BACKENDS)


def test_digest_is_a_fixed_function_of_the_set() -> None:
    """Ledger: ROU-04. Another gateway, or the same one later, finds the same."""
    assert worker_set(BACKENDS[:2]).digest == "d45ffe2a981a386b9649ff27492232b81e23076969631ec1d2cffe368d45e38e"


def test_another_policy_member_or_address_has_another_digest() -> None:
    """Ledger: ROU-04."""
    moved = (replace(BACKENDS[0], address="10.0.0.9:8000"), *BACKENDS[1:])
    sets = [
        worker_set(BACKENDS),
        worker_set(BACKENDS, "consistent_hash"),
        worker_set(BACKENDS[1:]),
        worker_set(moved),
    ]
    assert len({one.digest for one in sets}) == 4


def test_router_retries_nothing_listens_on_loopback_and_is_told_no_secret() -> None:
    arguments = router_arguments("cache_aware", ("127.0.0.1:4002", "127.0.0.1:4003"), 4000, 4001)
    assert "--disable-retries" in arguments
    assert (
        arguments[arguments.index("--host") + 1] == arguments[arguments.index("--prometheus-host") + 1] == "127.0.0.1"
    )
    assert {"http://127.0.0.1:4002", "http://127.0.0.1:4003"} <= set(arguments)
    assert not any("key" in argument for argument in arguments)
