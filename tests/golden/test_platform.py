"""What an installation stands up once, as files: the example site's whole tree, other sites as what differs.

`platform/<case>/options.yaml` changes fields of the example site; `reference/out/<group>/` has one file per object,
`<case>/delta.txt` one line per field that differs. Secrets are holes.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from ruamel.yaml import YAML

from provisioner.rendering.canonical import canonical_yaml
from provisioner.rendering.diff import differences
from provisioner.rendering.pack import compile_pack
from tests.golden.test_tiers import name_of
from tests.unit.rendering.examples import catalog
from tests.unit.rendering.installations import CASES, FOLDER, site_of

REFERENCE = "reference"
OUT = FOLDER / REFERENCE / "out"
Object = dict[str, Any]


def tree_of(case: str) -> dict[str, Object]:
    """Path below the tree -> object."""
    return {
        f"{group}/{name_of(made)}": steady(made)
        for group, objects in compile_pack(catalog(), site_of(case)).platform_groups().items()
        for made in objects
    }


def steady(made: Object) -> Object:
    """The object without the digest of its site, which changes with every field of it."""
    found: Object = json.loads(re.sub(r'("tenantry.io/site": )"[0-9a-f]{16}"', r'\1"[digest]"', json.dumps(made)))
    return found


def opened(text: str) -> Any:
    """What stands in a text: a site, values, a kubeconfig."""
    found = YAML(typ="safe", pure=True).load(text) if "\n" in text else None
    return found if isinstance(found, dict) else None


def test_example_installation_is_as_reviewed(update_golden: bool) -> None:
    """Ledger: ARG-01."""
    texts = {path: canonical_yaml(made) for path, made in tree_of(REFERENCE).items()}
    if update_golden:
        for stale in OUT.rglob("*.yaml"):
            stale.unlink()
        for path, text in texts.items():
            (OUT / path).parent.mkdir(parents=True, exist_ok=True)
            (OUT / path).write_text(text)
    assert {str(path.relative_to(OUT)): path.read_text() for path in OUT.rglob("*.yaml")} == texts


@pytest.mark.parametrize("case", sorted(set(CASES) - {REFERENCE}))
def test_other_installations_differ_as_reviewed(case: str, update_golden: bool) -> None:
    """Ledger: TEN-15 (the profile decides how many stand, and that they may be drained one by one)."""
    before, after = tree_of(REFERENCE), tree_of(case)
    lines = [f"{'-' if path in before else '+'} {path}" for path in sorted(before.keys() ^ after.keys())]
    for path in sorted(before.keys() & after.keys()):
        lines += [f"~ {path} {found}" for found in differences(before[path], after[path], opened=opened)]
    text = "".join(f"{line}\n" for line in lines)
    expected = FOLDER / case / "delta.txt"
    if update_golden:
        expected.write_text(text)
    assert expected.read_text() == text
