"""Which plans run in the same pods, and what stands while one revision takes over from another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from provisioner.domain.ids import EndpointId
from provisioner.domain.plan import EndpointPlan
from provisioner.rendering.pack import Pack, compile_pack
from tests.unit.rendering.examples import catalog, pack, plan, site


def revision(planned: EndpointPlan, made_by: Pack | None = None) -> str:
    return (made_by or pack()).revised(planned).runtime.revision


def test_bounds_and_owner_of_replicas_are_no_other_revision() -> None:
    """Ledger: AUT-05"""
    wider = plan(scaling={"minReplicas": 2, "maxReplicas": 4})
    others = replace(plan(), endpoint=EndpointId("ep-another"), tenant="globex", name="another")
    assert revision(plan()) == revision(wider) == revision(others)


@pytest.mark.parametrize("changes", [{"model": "Qwen2-VL-2B-Instruct"}, {"serving": {"maxModelLen": 4096}}])
def test_what_the_request_changes_of_pods_is_another_revision(changes: dict[str, Any]) -> None:
    assert revision(plan()) != revision(plan(**changes))


def test_template_that_renders_other_pods_is_another_revision(root: Path) -> None:
    template = root / "applications/runtimes/_shared/pod.j2"
    text = template.read_text()
    template.write_text(text.replace("terminationGracePeriodSeconds: 120", "terminationGracePeriodSeconds: 180"))
    assert revision(plan(), compile_pack(catalog(), site(), root=root)) != revision(plan())


def test_template_of_other_words_that_renders_the_same_pods_is_the_same_revision(root: Path) -> None:
    template = root / "applications/runtimes/_shared/pod.j2"
    template.write_text("{#- A remark. -#}\n" + template.read_text())
    assert revision(plan(), compile_pack(catalog(), site(), root=root)) == revision(plan())


def test_site_that_changes_pods_is_another_revision() -> None:
    agents = site().model_copy(update={"agent_image": "registry.example.com/agent@sha256:" + "0" * 64})
    assert revision(plan(), compile_pack(catalog(), agents)) != revision(plan())


def test_files_of_the_workload_are_those_that_name_its_pods() -> None:
    planned = plan()
    files = pack().workload_files(planned)
    assert files.items() <= pack().runtime_tree(planned).items()
    assert {yaml.safe_load(text)["kind"] for text in files.values()} == {"StatefulSet"}


def test_quota_has_room_for_the_larger_of_two_revisions_whichever_comes_first() -> None:
    small, large = plan(), plan(scaling={"minReplicas": 1, "maxReplicas": 4})

    def quota(planned: EndpointPlan, beside: EndpointPlan | None = None) -> object:
        tree = pack().runtime_tree(planned, beside=beside)
        return next(yaml.safe_load(text)["spec"]["hard"] for name, text in tree.items() if "resourcequota" in name)

    assert quota(small, large) == quota(large, small) == quota(large) != quota(small)
