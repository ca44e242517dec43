"""Exit codes: whether a pipeline may go on."""

from __future__ import annotations

import pytest

from provisioner.domain.finding import Severity
from provisioner.preview.sides import Rendition
from provisioner.preview.threshold import FailOn
from provisioner.preview.verdict import exit_code
from tests.unit.preview.sides import Object, case, edited, planned, published, rendered, report, running, wrong
from tests.unit.rendering.examples import example_pack


def same_sides() -> dict[str, Rendition]:
    plan = planned("ep-demo")
    objects = rendered(plan)

    def labels(found: Object) -> None:
        found["metadata"]["labels"]["new"] = "yes"

    def image(found: Object) -> None:
        found["spec"]["template"]["spec"]["containers"][0]["image"] = "example/other@sha256:" + "3" * 64

    error = (wrong("rendering: no such value"),)
    return {
        "same": Rendition(objects=objects, plan=plan),
        "labels": Rendition(objects=edited(objects, "StatefulSet", labels), plan=plan),
        "image": Rendition(objects=edited(objects, "StatefulSet", image), plan=plan),
        "error": Rendition(objects=objects, plan=plan, findings=error),
        "warning": Rendition(objects=objects, plan=plan, findings=(wrong("odd", severity=Severity.WARNING),)),
        "image and error": Rendition(objects=edited(objects, "StatefulSet", image), plan=plan, findings=error),
        "broken": Rendition(failure=error),
    }


@pytest.mark.parametrize(
    ("base", "head", "codes"),
    [
        ("same", "same", (0, 0, 0, 0)),
        ("same", "labels", (0, 0, 0, 3)),
        ("same", "image", (0, 0, 3, 3)),
        ("same", "warning", (0, 0, 0, 0)),
        ("same", "error", (0, 4, 4, 4)),
        ("error", "error", (0, 0, 0, 0)),
        ("error", "same", (0, 0, 0, 0)),
        ("same", "image and error", (0, 4, 4, 4)),
        ("same", "broken", (0, 1, 1, 1)),
        ("broken", "same", (0, 1, 1, 1)),
        ("broken", "broken", (0, 1, 1, 1)),
    ],
)
def test_exit_code_follows_what_shall_fail(base: str, head: str, codes: tuple[int, ...]) -> None:
    sides = same_sides()
    found = report({case(): sides[base]}, {case(): sides[head]})
    assert tuple(exit_code(found, fail_on) for fail_on in FailOn) == codes


@pytest.mark.parametrize(("lives", "code"), [([], 0), ([running("ep-demo")], 1)])
def test_tier_that_goes_with_endpoints_on_it_is_broken(lives: list[object], code: int) -> None:
    found = report({published(): Rendition(objects=example_pack().tier_objects("dedicated"))}, {}, endpoints=lives)
    assert exit_code(found) == code
