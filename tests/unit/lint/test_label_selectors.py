"""What label selectors select, generated labels and holes included."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from provisioner.lint.joins.selectors import Selector, selector, selects
from provisioner.lint.values import Hole
from provisioner.lint.world import Object, PodTemplate
from tests.unit.lint.test_quantities import NoDocument

LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"), max_size=3)


def of(value: Any) -> Selector:
    found = selector(value)
    assert found is not None
    return found


def pods(kind: str, labels: dict[str, Any], name: str = "chat") -> PodTemplate:
    template = {"metadata": {"labels": labels}, "spec": {"containers": []}}
    value = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": {"template": template}}
    return PodTemplate(Object(NoDocument(), value), ("spec", "template"))


@given(LABELS, LABELS)
def test_labels_are_selected_when_they_include_those_of_the_selector(
    wanted: dict[str, str], have: dict[str, str]
) -> None:
    assert of({"matchLabels": wanted}).matches(have) == (wanted.items() <= have.items())


def test_expressions_mean_what_kubernetes_means() -> None:
    def expression(operator: str, *values: str) -> Selector:
        return of({"matchExpressions": [{"key": "a", "operator": operator, "values": list(values)}]})

    assert expression("In", "x", "y").matches({"a": "x"})
    assert not expression("In", "x").matches({})
    assert expression("NotIn", "x").matches({})
    assert not expression("NotIn", "x").matches({"a": "x"})
    assert expression("Exists").matches({"a": "z"})
    assert expression("DoesNotExist").matches({"b": "z"})


def test_a_hole_in_a_label_may_be_any_value() -> None:
    assert of({"matchLabels": {"a": "x"}}).matches({"a": Hole("{{ .Values.a }}")})
    assert not of({"matchLabels": {"a": Hole("{{ .Values.a }}")}}).is_certain


def test_labels_that_controllers_add_count_as_there() -> None:
    first = of({"matchLabels": {"app": "chat", "statefulset.kubernetes.io/pod-name": "chat-0"}})
    assert selects(first, pods("StatefulSet", {"app": "chat"}))
    assert not selects(first, pods("StatefulSet", {"app": "chat"}, name="embed"))
    assert not selects(first, pods("Deployment", {"app": "chat"}))
    leader = of({"matchLabels": {"leaderworkerset.sigs.k8s.io/name": "chat", "role": "leader"}})
    assert not selects(leader, pods("LeaderWorkerSet", {"role": "worker"}))


def test_an_empty_selector_selects_everything_and_none_is_no_selector() -> None:
    assert of({}).is_empty
    assert selector(None) is None
    assert not of({"matchExpressions": "x"}).labels
