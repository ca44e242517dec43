"""What holds for any two sides: nothing invented, nothing forgotten, no order that matters."""

from __future__ import annotations

import json
import random

from hypothesis import given
from hypothesis import strategies as st

from provisioner.preview.document import report_document
from provisioner.preview.effect import Effect
from provisioner.preview.placeholders import placeholders
from provisioner.preview.sides import Rendition
from tests.unit.preview.sides import Object, case, report

KINDS = st.sampled_from(["ConfigMap", "Service", "StatefulSet", "NetworkPolicy", "PersistentVolumeClaim", "Unheard"])
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.text("ab:\n -", max_size=6))
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["name", "value", "spec", "data"]), inner, max_size=3),
    ),
    max_leaves=6,
)


@st.composite
def trees(draw: st.DrawFn) -> tuple[Object, ...]:
    """A few objects, each with an identity of its own."""
    names = draw(st.lists(st.tuples(KINDS, st.sampled_from("abcd")), max_size=5, unique=True))
    return tuple(
        {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "spec": draw(VALUES)} for kind, name in names
    )


def said(found: Object) -> str:
    """What an object says: unlike Python, JSON tells `false` from `0`."""
    return json.dumps(found, sort_keys=True)


def test_false_in_the_place_of_zero_is_told() -> None:
    sides = [({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": spec},) for spec in (0, False)]
    found = report(*({case(): Rendition(objects=objects)} for objects in sides))
    assert [change.name for tier in found.tiers for change in tier.changes] == ["a"]


@given(trees())
def test_a_side_does_not_differ_from_itself(objects: tuple[Object, ...]) -> None:
    found = report({case(): Rendition(objects=objects)}, {case(): Rendition(objects=objects)})
    assert (found.tiers, found.effect) == ((), Effect.NOTHING)


@given(trees(), trees(), st.randoms(use_true_random=False))
def test_order_of_objects_does_not_matter(
    old: tuple[Object, ...], new: tuple[Object, ...], chance: random.Random
) -> None:
    mixed = [tuple(chance.sample(side, len(side))) for side in (old, new)]
    one, other = (
        report({case(): Rendition(objects=base)}, {case(): Rendition(objects=head)})
        for base, head in ((old, new), mixed)
    )
    assert report_document(one, exit_code=0) == report_document(other, exit_code=0)


@given(trees(), trees())
def test_every_object_that_differs_is_told_and_no_other(old: tuple[Object, ...], new: tuple[Object, ...]) -> None:
    found = report({case(): Rendition(objects=old)}, {case(): Rendition(objects=new)})
    told: set[tuple[str, str]] = set()
    for change in (change for tier in found.tiers for change in tier.changes):
        told |= {(change.kind, name) for name in (change.name, change.renamed_from) if name}
    before, after = ({(one["kind"], one["metadata"]["name"]): said(one) for one in side} for side in (old, new))
    assert told == {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}


@given(trees(), trees())
def test_workload_that_differs_in_more_than_labels_is_never_taken_for_harmless(
    old: tuple[Object, ...], new: tuple[Object, ...]
) -> None:
    found = report({case(): Rendition(objects=old)}, {case(): Rendition(objects=new)})
    for change in (change for tier in found.tiers for change in tier.changes):
        if change.kind in ("StatefulSet", "Unheard") and change.sign != "+":
            assert change.effect >= Effect.PODS_RESTART


@given(st.text("ab-. ", max_size=30), st.lists(st.text("ab", min_size=1, max_size=3), max_size=3))
def test_placeholders_come_out_as_they_went_in(text: str, words: list[str]) -> None:
    names = placeholders((word, f"{{{at}}}") for at, word in enumerate(words))
    assert names.out_of(names.in_text(text)) == text
