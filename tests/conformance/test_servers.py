"""Says so when the suite runs against the embedded server alone."""

from __future__ import annotations

from tests.engines import require_engine


def test_a_real_server_takes_part() -> None:
    for program in ("kube-apiserver", "etcd"):
        require_engine(program)
