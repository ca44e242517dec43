"""What Kubernetes makes of quantities, and what a pod asks for."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from provisioner.lint.joins.quantities import amount, is_accelerator, is_extended, pod_total
from provisioner.lint.values import Hole
from provisioner.lint.world import Object, PodTemplate


class NoDocument:
    """A document of no file."""

    file = "pod.yaml"
    value: Any = None
    disagreements = ()

    def line(self, _path: object = ()) -> int:
        return 1

    def within(self, _path: object) -> tuple[Any, ...]:
        return ()


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("16Gi", Decimal(16 * 2**30)),
        ("500m", Decimal("0.5")),
        (2, Decimal(2)),
        ("1e3", Decimal(1000)),
        ("1.5k", Decimal(1500)),
        ("0", Decimal(0)),
        ("5E", Decimal(5 * 10**18)),
    ],
)
def test_quantity_is_read_as_the_api_server_reads_it(written: Any, read: Decimal) -> None:
    assert amount(written) == read


@pytest.mark.parametrize(
    "written", ["16GB", "16 Gi", "16gi", "", "Gi", "1_000", True, None, [], Hole("{{ .x }}"), "9" * 99]
)
def test_what_is_no_quantity_is_none(written: Any) -> None:
    assert amount(written) is None


def pod(**spec: Any) -> PodTemplate:
    value = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, "spec": spec}
    return PodTemplate(Object(NoDocument(), value), ())


def box(**requests: Any) -> dict[str, Any]:
    return {"name": "box", "resources": {"requests": requests}}


def test_pod_asks_for_its_running_containers_or_its_largest_init_container() -> None:
    found = pod(
        initContainers=[box(cpu=8, memory="1Gi"), box(cpu=1) | {"restartPolicy": "Always"}],
        containers=[box(cpu=2, memory="4Gi"), box(cpu=3)],
    )
    assert pod_total(found) == {"cpu": Decimal(8), "memory": Decimal(4 * 2**30)}


def test_limit_stands_in_for_a_request_that_is_left_out() -> None:
    found = pod(containers=[{"name": "box", "resources": {"limits": {"nvidia.com/gpu": "2"}}}])
    assert pod_total(found) == {"nvidia.com/gpu": Decimal(2)}


def test_names_of_resources_tell_their_sort() -> None:
    assert is_extended("nvidia.com/mig-1g.10gb")
    assert is_accelerator("nvidia.com/mig-1g.10gb")
    assert is_extended("nvidia.com/hostdev")
    assert not is_accelerator("nvidia.com/hostdev")
    assert not is_extended("cpu")
    assert not is_extended("requests.nvidia.com/gpu")
