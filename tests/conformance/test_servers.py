"""Says so when the suite runs against the embedded server alone."""

from __future__ import annotations

import pytest

from tests.conformance import servers


def test_a_real_server_takes_part() -> None:
    if not servers.has_kube_apiserver():
        pytest.skip(
            "needs kube-apiserver: install one with `setup-envtest use` and name its folder in KUBEBUILDER_ASSETS"
        )
