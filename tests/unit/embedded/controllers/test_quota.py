"""The fences of a project."""

from __future__ import annotations

from typing import Any

import pytest

from provisioner.embedded.controllers.quota import allows_node_type, allows_template, count_used, find_denial

Json = dict[str, Any]


def _project(**spec: Any) -> Json:
    return {"spec": spec}


def test_denial_names_scope_resource_and_limit() -> None:
    project = _project(quotas={"project": {"nodeclaims": "5"}})
    assert find_denial(project, "nodeclaim", {"nodeclaims": 4}) is None
    assert find_denial(project, "nodeclaim", {"nodeclaims": 5}) == (
        "metadata.name: Forbidden: cannot create nodeclaim, because project nodeclaims limit of 5 would be exceeded"
    )


def test_limit_of_one_provider_does_not_bind_another() -> None:
    project = _project(quotas={"project": {"nodeclaims.provider=aws": "1"}})
    claims = [{"spec": {"providerRef": "aws"}}, {"spec": {"providerRef": "metal3"}}]
    used = {key: count_used(key, claims=claims) for key in ("nodeclaims", "nodeclaims.provider=metal3")}
    assert used == {"nodeclaims": 2, "nodeclaims.provider=metal3": 1}
    assert find_denial(project, "nodeclaim", used) is None
    denial = find_denial(project, "nodeclaim", {"nodeclaims.provider=aws": 1})
    assert denial is not None
    assert "project nodeclaims.provider=aws limit of 1" in denial


def test_instances_are_counted_in_all_and_by_template() -> None:
    instances: list[Json] = [
        {"spec": {"templateRef": {"name": "a"}}},
        {"spec": {"templateRef": {"name": "b"}}},
        {"spec": {}},
    ]
    keys = ("virtualclusterinstances", "virtualclusterinstances.active", "virtualclusterinstances.template=a", "pods")
    assert [count_used(key, instances=instances) for key in keys] == [3, 3, 1, 0]


@pytest.mark.parametrize(
    ("allowed", "name", "verdict"),
    [
        (None, "aws.large", True),
        ([], "aws.large", False),
        ([{"name": "aws.large"}], "aws.large", True),
        ([{"name": "aws.large"}], "aws.larger", False),
        ([{"name": "aws.*"}], "aws.large", True),
        ([{"name": "aws.*"}], "awsx.large", False),
        ([{"name": "AWS.*"}], "aws.large", False),
    ],
)
def test_node_types_are_fenced_by_full_name_or_provider(allowed: list[Json] | None, name: str, verdict: bool) -> None:
    assert allows_node_type(_project(allowedNodeTypes=allowed), name) is verdict


@pytest.mark.parametrize(
    ("allowed", "verdict"),
    [(None, True), ([], False), ([{"name": "*"}], True), ([{"name": "other"}], False), ([{"name": "mine"}], True)],
)
def test_templates_are_fenced_by_name(allowed: list[Json] | None, verdict: bool) -> None:
    assert allows_template(_project(allowedTemplates=allowed), "mine") is verdict
