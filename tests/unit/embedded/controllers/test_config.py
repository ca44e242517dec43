"""The rules about vcluster.yaml that no schema knows."""

from __future__ import annotations

from typing import Any

import pytest

from provisioner.embedded.controllers.platform.config import ChartError, check_applications, check_chart, parse_config
from provisioner.embedded.controllers.templating import TemplateError

Json = dict[str, Any]
_POOL: Json = {"name": "gpu", "quantity": 1}


def _nodes(*entries: Json) -> Json:
    return {"privateNodes": {"enabled": True, "autoNodes": list(entries)}}


def _selecting(**requirement: Any) -> Json:
    return _nodes({"provider": "laptop", "static": [{**_POOL, "nodeTypeSelector": [requirement]}]})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (_nodes({"static": [_POOL]}), "provider is required"),
        (_nodes({"provider": "a"}, {"provider": "a"}), "provider a is already used"),
        (_nodes({"provider": "a", "static": [_POOL], "dynamic": [{"name": "gpu"}]}), "name gpu is already used"),
        (_nodes({"provider": "a", "static": [{"name": "gpu", "quantity": -1}]}), "quantity must be 0 or more"),
        (_nodes({"provider": "a", "static": [{"name": "gpu"}]}), "quantity must be 0 or more"),
        (_selecting(operator="In", value="x"), "property is required"),
        (_selecting(property="p", operator="NotExists"), "invalid operator NotExists"),
        (_selecting(property="p", value="x", values=["y"]), "exclude each other"),
        (_selecting(property="p"), "value or values is required"),
        (_selecting(property="p", operator="Gt"), "value or values is required"),
        (_selecting(property="p", operator="Exists", values=["x"]), "no requirement value is allowed"),
        ({"controlPlane": {"endpoint": "api.example.com:443"}}, "endpoint is only supported in private nodes mode"),
        (
            {"controlPlane": {"statefulSet": {"highAvailability": {"replicas": 3}}}},
            "embedded database is not supported with multiple replicas",
        ),
        ({"sync": {"fromHost": {"gateways": {"enabled": True}}}}, "byName must not be empty"),
        (
            {"privateNodes": {"enabled": True}, "integrations": {"certManager": {"enabled": True}}},
            "certManager integration is not supported in private nodes mode",
        ),
    ],
)
def test_control_plane_refuses_what_breaks_a_chart_rule(values: Json, message: str) -> None:
    with pytest.raises(ChartError, match=message):
        check_chart(parse_config(values))


def test_several_replicas_with_a_store_of_their_own_are_fine() -> None:
    replicas = {"highAvailability": {"replicas": 3}}
    store = {"etcd": {"embedded": {"enabled": True}}}
    check_chart(parse_config({"controlPlane": {"statefulSet": replicas, "backingStore": store}}))


def test_object_form_of_auto_nodes_is_refused() -> None:
    with pytest.raises(ChartError, match="autoNodes"):
        parse_config({"privateNodes": {"enabled": True, "autoNodes": {"provider": "a"}}})


def _deploying(*applications: Json, connector: str = "argocd-main") -> Json:
    return {
        "integrations": {"argoCD": {"enabled": bool(connector), "connector": connector}},
        "deploy": {"argoCD": {"applications": list(applications)}},
    }


_RUNTIME: Json = {"name": "runtime", "template": {"name": "tenantry-runtime"}}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (_deploying(_RUNTIME, connector=""), "argoCD integration must be enabled"),
        (_deploying({"template": {"name": "t"}}), "name or displayName is required"),
        (_deploying(_RUNTIME, _RUNTIME), "used twice: runtime"),
        (_deploying({**_RUNTIME, "target": "vcluster"}), "invalid target"),
        (_deploying({**_RUNTIME, "inline": {}}), "either template or inline"),
        (_deploying({"name": "runtime"}), "either template or inline"),
        (_deploying({"name": "runtime", "template": {}}), "template.name is required"),
    ],
)
def test_platform_refuses_what_breaks_an_application_rule(values: Json, message: str) -> None:
    with pytest.raises(TemplateError, match=message) as caught:
        check_applications(parse_config(values))
    assert caught.value.reason == "ErrorModifyingTemplate"


def test_pools_come_with_their_provider_and_only_on_private_nodes() -> None:
    entry: Json = {"provider": "laptop", "static": [_POOL], "dynamic": [{"name": "burst"}]}
    config = parse_config(_nodes(entry))
    check_chart(config)
    assert [(provider, pool.name, pool.quantity) for provider, pool in config.pools()] == [
        ("laptop", "gpu", 1),
        ("laptop", "burst", None),
    ]
    assert not list(parse_config({"privateNodes": {"autoNodes": [entry]}}).pools())
