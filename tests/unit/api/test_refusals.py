"""What a tenant cluster's policies would refuse later is refused when an endpoint is asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from provisioner.admission.manifests import ManifestJudge
from provisioner.api.services import Services
from provisioner.catalog.pack import pack_root
from provisioner.rendering.pack import compile_pack
from tests.unit.api.application import application
from tests.unit.api.conftest import OPERATOR_KEY, REQUEST, idempotent
from tests.unit.rendering.examples import catalog, example_site

PART = "applications/runtimes/_shared/replica/service.yaml.j2"


@pytest.mark.parametrize("path", ["/v1/plan", "/v1/endpoints"])
async def test_manifests_that_the_policies_would_refuse_are_refused_before_anything_is_stored(
    path: str, services: Services, acme: str, tmp_path: Path
) -> None:
    own = tmp_path / "own" / PART
    own.parent.mkdir(parents=True)
    own.write_text((pack_root() / PART).read_text().replace("spec:", "spec:\n  type: NodePort", 1))
    judge = ManifestJudge(compile_pack(catalog(), example_site(), overlay=tmp_path / "own"))
    judged = replace(services, catalog=catalog(), site=example_site(), refusals=judge.findings)
    asked = {**REQUEST, "model": "Qwen2-VL-2B-Instruct", "region": "eu-central-1", "serving": {}}
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(application(judged)),
        base_url="http://api.example.com",
        headers={"Authorization": f"Bearer {OPERATOR_KEY}"},
    ) as operator:
        answer = await operator.post(path, json=asked, headers=idempotent("a"))
    assert answer.status_code == 422, answer.text
    [first, *_] = answer.json()["findings"]
    assert (first["reason"], first["field"]) == ("PolicyServiceExposure", "spec.type")
    assert first["object"].startswith("Service inference/")
    assert first["hint"]
    assert await services.store.endpoints.list() == []
