"""What an installation needs once, as it would be applied: connector, access keys, baseline. Secrets are holes."""

from __future__ import annotations

from pathlib import Path

import pytest

from provisioner.catalog.site import ArgoSettings
from provisioner.rendering.canonical import canonical_yaml
from provisioner.rendering.pack import compile_pack
from tests.unit.rendering.examples import catalog, example_site

FOLDER = Path(__file__).parent / "platform"
AKUITY = {
    "akuityAgentSize": "CLUSTER_SIZE_MEDIUM",
    "akuityApiKeyId": "key-id",
    "akuityInstanceId": "instance-id",
    "akuityOrgId": "organization-id",
}
CONNECTORS = {"argocd": example_site().argo, "akuity": ArgoSettings(kind="akuity", settings=AKUITY)}


@pytest.mark.parametrize("connector", sorted(CONNECTORS))
def test_what_an_installation_needs_once_is_as_reviewed(connector: str, update_golden: bool) -> None:
    """Ledger: ARG-01."""
    site = example_site().model_copy(update={"argo": CONNECTORS[connector]})
    objects = compile_pack(catalog(), site).platform_objects(projects=["acme-dedicated", "pool-shared"])
    text = "---\n".join(map(canonical_yaml, objects))
    path = FOLDER / f"{connector}.yaml"
    if update_golden:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert path.read_text() == text
