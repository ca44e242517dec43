"""Plans and refusals as files: one folder per case with `input.yaml` and `plan.json` or `error.txt`."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import TypeAdapter

from provisioner.admission import admit_endpoint, preview_id
from provisioner.catalog.document import read_document
from provisioner.domain.errors import RejectedError
from provisioner.domain.plan import EndpointPlan
from tests.unit.catalog.packs import small_catalog, small_site

FOLDER = Path(__file__).parent
CASES = sorted(path.parent.name for path in FOLDER.glob("*/input.yaml"))
PLAN = TypeAdapter(EndpointPlan)


def answer(case: str) -> tuple[str, str]:
    """The file that a case must have, and its text."""
    raw = read_document(FOLDER / case / "input.yaml", root=FOLDER).value
    try:
        _, plan = admit_endpoint(raw, catalog=small_catalog(), site=small_site(), endpoint_id=preview_id(raw))
    except RejectedError as error:
        assert all(finding.hint for finding in error.findings)
        told = [f"{finding.reason} {finding}\n  hint: {finding.hint or '-'}\n" for finding in error.findings]
        return "error.txt", "".join([f"{error.reason}: {error}\n", *told])
    return "plan.json", PLAN.dump_json(plan, indent=2).decode() + "\n"


@pytest.mark.parametrize("case", CASES)
def test_plan_is_as_reviewed(case: str, update_golden: bool) -> None:
    """Ledger: TEN-13, CAT-02, CAT-03, CAT-05."""
    name, text = answer(case)
    if update_golden:
        for old in ("plan.json", "error.txt"):
            (FOLDER / case / old).unlink(missing_ok=True)
        (FOLDER / case / name).write_text(text)
    assert {path.name for path in (FOLDER / case).iterdir()} == {"input.yaml", name}
    assert (FOLDER / case / name).read_text() == text


@pytest.mark.parametrize("case", CASES)
def test_same_input_twice_gives_the_same_bytes(case: str) -> None:
    """Ledger: TEN-13."""
    assert answer(case) == answer(case)
