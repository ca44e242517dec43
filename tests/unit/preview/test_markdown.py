"""The comment on a pull request: bounded, the worst first, and safe against what it quotes."""

from __future__ import annotations

import re

import pytest

from provisioner.domain.finding import Severity
from provisioner.preview import phrases
from provisioner.preview.markdown import MARKER, MAX_CHARACTERS, report_markdown
from provisioner.preview.rows import CHANGE_TITLES, EFFECT_TITLES, change_rows, effect_rows
from provisioner.preview.sides import Rendition
from tests.unit.preview.sides import Object, case, planned, rendered, report, running, unit, wrong


def settings(name: str, value: str) -> Object:
    """A ConfigMap with one entry."""
    metadata = {"name": name, "namespace": "inference"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": value}}


def many(number: int, *, length: int = 500, tiers: tuple[str, ...] = ("dedicated",)) -> str:
    """The comment about many objects that change, each in another way."""
    sides = [
        {
            case(tier): Rendition(
                objects=tuple(settings(f"map-{at:05d}", f"{side} {at} " + "x" * length) for at in range(number))
            )
            for tier in tiers
        }
        for side in ("old", "new")
    ]
    return report_markdown(report(*sides), exit_code=0)


def test_comment_begins_with_the_hidden_marker() -> None:
    assert many(1).startswith(f"{MARKER}\n## Preview: `main` → `change`\n")


@pytest.mark.parametrize(("number", "length"), [(10, 10), (60, 500), (1_000, 500), (1_000, 5)])
def test_comment_is_never_longer_than_it_may_be_and_counts_what_did_not_fit(number: int, length: int) -> None:
    text = many(number, length=length)
    assert len(text) <= MAX_CHARACTERS
    shown = len(re.findall(r"^\*\*`± ConfigMap", text, re.MULTILINE))
    told = re.search(r"^([0-9,]+) more objects? did not fit:", text, re.MULTILINE)
    left_out = int(told[1].replace(",", "")) if told else 0
    assert shown + left_out == number
    assert text.count("<details>") == text.count("</details>")


def test_same_fields_are_shown_in_the_first_tier_only() -> None:
    text = many(1, tiers=("dedicated", "isolated"))
    assert text.count("```diff") == 1
    assert "The same fields as in `dedicated`." in text


def test_worst_effects_come_first() -> None:
    def pods(image: str) -> Object:
        container = {"name": "server", "image": image}
        return {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": "server"},
            "spec": {"template": {"spec": {"containers": [container]}}},
        }

    mild = unit("ep-mild", tier="dedicated"), settings("one", "a"), settings("one", "b")
    bad = unit("ep-bad", tier="isolated"), pods("a"), pods("b")
    found = report(
        {one: Rendition(objects=(old,)) for one, old, _ in (mild, bad)},
        {one: Rendition(objects=(new,)) for one, _, new in (mild, bad)},
        endpoints=[running("ep-mild"), running("ep-bad", tier="isolated")],
    )
    text = report_markdown(found, exit_code=3)
    assert text.index("**pods restart, with its next roll-out**") < text.index(
        "**config reload, with its next roll-out**"
    )
    assert text.index("<b>isolated</b>") < text.index("<b>dedicated</b>")
    assert [row.cells[0] for row in effect_rows(found)] == [
        "pods restart, with its next roll-out",
        "config reload, with its next roll-out",
    ]
    assert all(len(row.cells) == len(EFFECT_TITLES) for row in effect_rows(found))
    assert all(len(row.cells) == len(CHANGE_TITLES) for _, rows in change_rows(found) for row in rows)


def test_nothing_that_is_quoted_becomes_markup() -> None:
    evil = "</details> @acme/everyone <img src=x> ```\n# heading\n| a | b |"
    message = wrong(f"reading: {evil}", severity=Severity.WARNING)
    base, head = (Rendition(objects=(settings("one", text),)) for text in ("plain\ntext", f"plain\n{evil}\n````"))
    found = report({case(): base}, {case(): Rendition(objects=head.objects, findings=(message,))})
    text = report_markdown(found, exit_code=0)
    fence = re.search(r"^(`{3,})diff$", text, re.MULTILINE)
    assert fence is not None
    assert len(fence[1]) == 5
    outside = re.sub(rf"^{fence[0]}.*?^{fence[1]}$", "", text, flags=re.MULTILINE | re.DOTALL)
    assert outside.count("</details>") == 1
    assert "@acme" not in outside
    assert "<img" not in outside
    assert "\n# heading" not in outside


def test_only_findings_that_are_new_or_fixed_are_listed() -> None:
    old, kept, new = wrong("old one"), wrong("kept one"), wrong("new one")
    plain = settings("one", "a")
    found = report(
        {case(): Rendition(objects=(plain,), findings=(old, kept))},
        {case(): Rendition(objects=(plain,), findings=(kept, new))},
    )
    text = report_markdown(found, exit_code=4)
    assert "### Findings: 1 new, 1 fixed, 1 unchanged" in text
    assert ("new one" in text, "old one" in text, "kept one" in text) == (True, True, False)


def test_lists_that_are_always_shown_fit_together() -> None:
    names = [f"tier{at}" for at in range(40)]
    long = "y" * 2_000
    findings = tuple(wrong(f"reading {at}: {long}", hint=long, file="a/b.yaml", line=1) for at in range(300))
    failing = {case(name): Rendition(failure=findings[at : at + 5]) for at, name in enumerate(names)}
    base = {case(): Rendition(objects=(settings("one", "a"),)), **{key: Rendition() for key in failing}}
    head = {case(): Rendition(objects=(settings("one", "b"),), findings=findings), **failing}
    text = report_markdown(report(base, head), exit_code=1)
    assert len(text) <= MAX_CHARACTERS
    assert "28 more failures" in text
    assert "270 more new findings" in text
    assert "± ConfigMap/inference/one" in text


def test_even_escaped_text_stays_within_bounds() -> None:
    odd = tuple(wrong(f"{at}{'<' * 900}", severity=severity) for severity in Severity for at in range(100))
    failing = {case(f"tier{at}"): Rendition(failure=odd[at : at + 5]) for at in range(20)}
    base = {case(): Rendition(), **{key: Rendition() for key in failing}}
    text = report_markdown(report(base, {case(): Rendition(findings=odd), **failing}), exit_code=4)
    assert MAX_CHARACTERS - 2_000 < len(text) <= MAX_CHARACTERS
    assert "did not fit" in text


def test_nothing_is_said_to_happen_only_where_all_could_be_previewed() -> None:
    same, broken = Rendition(objects=(settings("one", "x"),)), Rendition(failure=(wrong("no such value"),))
    other = Rendition(objects=(settings("one", "y"),))
    blind = report({case(): same}, {case(): broken})
    assert phrases.headline(blind) == "1 unit could not be previewed: what happens to it is not known"
    both = report(
        {case(): same, case("shared"): same}, {case(): broken, case("shared"): other}, endpoints=[running("ep-1")]
    )
    assert "nothing happens" not in phrases.headline(both)
    assert "could not be previewed" in phrases.headline(both)


def test_workload_that_reads_alike_is_no_object_to_read_but_restarts() -> None:
    plans = [planned("ep-demo", revision=name) for name in ("aaaaaa", "bbbbbb")]
    base, head = ({unit("ep-demo"): Rendition(objects=rendered(plan), plan=plan)} for plan in plans)
    found = report(base, head, endpoints=[running("ep-demo")])
    assert [row.cells[0] for row in effect_rows(found)] == ["pods restart, with its next roll-out"]
    assert list(change_rows(found)) == []
    text = report_markdown(found, exit_code=3)
    assert "its manifests read alike, its pods are new" in text
    assert "StatefulSet" not in text


def test_findings_that_only_stay_are_one_line() -> None:
    old = {case(): Rendition(objects=(settings("one", "x"),), findings=(wrong("odd"),))}
    new = {case(): Rendition(objects=(settings("one", "y"),), findings=(wrong("odd"),))}
    text = report_markdown(report(old, new), exit_code=0)
    assert "\n1 finding on both sides.\n" in text
    assert "Findings" not in text
