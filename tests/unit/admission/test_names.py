"""Names that people give to tenants and keys."""

from __future__ import annotations

from dataclasses import replace

import pytest

from provisioner.admission.key import KeyForm
from provisioner.admission.tenant import admit_tenant
from provisioner.catalog.fields import validate_fields
from provisioner.domain.errors import RejectedError
from tests.unit.catalog.packs import small_catalog, small_site

NOT_ONE_LINE = ["", "a\x00b", "a\nb", "\x1b[31mred", "a\u2028b", "x" * 121, "\ud800"]


@pytest.mark.parametrize("name", NOT_ONE_LINE)
def test_a_display_name_is_one_line_that_a_terminal_does_not_obey(name: str) -> None:
    with pytest.raises(RejectedError) as raised:
        admit_tenant(
            {"name": "acme", "displayName": name, "tiers": ["dedicated"]}, catalog=small_catalog(), site=small_site()
        )
    assert all(finding.hint for finding in raised.value.findings)


@pytest.mark.parametrize("name", NOT_ONE_LINE)
def test_the_name_of_a_key_is_one_line_too(name: str) -> None:
    assert isinstance(validate_fields(KeyForm, {"tenant": "acme", "name": name}), tuple)


@pytest.mark.parametrize("name", ["Größe & Söhne 株式会社 👩‍🔬", "x" * 120])
def test_a_display_name_may_be_in_any_script(name: str) -> None:
    raw = {"name": "acme", "displayName": name, "tiers": ["dedicated", "dedicated"]}
    tenant = admit_tenant(raw, catalog=small_catalog(), site=small_site())
    assert (tenant.display_name, tenant.tiers) == (name, ("dedicated",))


@pytest.mark.parametrize(
    ("name", "tiers", "is_refused"),
    [
        ("acme-eu", ["shared"], True),
        ("eu", ["shared"], False),
        ("acme", ["eu-shared"], False),
        ("acme-eu", ["eu-shared"], False),
        ("acme-us", ["shared"], False),
    ],
)
def test_no_two_tenants_get_one_project(name: str, tiers: list[str], is_refused: bool) -> None:
    """Ledger: TEN-12. `acme-eu` of tier `shared` and `acme` of tier `eu-shared` would share `acme-eu-shared`."""
    catalog = small_catalog()
    catalog = replace(catalog, tiers={**catalog.tiers, "eu-shared": catalog.tiers["shared"]})
    raw = {"name": name, "tiers": tiers}
    if not is_refused:
        assert admit_tenant(raw, catalog=catalog, site=small_site()).name == name
        return
    with pytest.raises(RejectedError) as refused:
        admit_tenant(raw, catalog=catalog, site=small_site())
    assert [finding.reason for finding in refused.value.findings] == ["ReservedName"]
