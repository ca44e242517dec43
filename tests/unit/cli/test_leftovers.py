"""What counts as left behind."""

from __future__ import annotations

from provisioner.cli.leftovers import without_those_of


def test_what_other_endpoints_hold_is_not_left_behind() -> None:
    found = ["branch ep-gone", "branch ep-other", "NodeClaim ep-other-gpu-0", "process /state/pods/p/ep-gone/1"]
    assert without_those_of(["ep-other"], found) == ["branch ep-gone", "process /state/pods/p/ep-gone/1"]
