"""Which version of a template an instance gets, and what its holes and parameters become."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.embedded.controllers.platform.template import resolve
from provisioner.embedded.controllers.templating import TemplateError, fill_parameters, render

Json = dict[str, Any]


def _instance(**spec: Any) -> Json:
    return {"metadata": {"name": "ep-one", "namespace": "p-acme-dedicated"}, "spec": spec}


def _template(*versions: str) -> Json:
    return {"spec": {"versions": [_version(version) for version in versions]}}


def _version(version: str) -> Json:
    return {"version": version, "template": {"objects": f"v{version} {{{{ .Values.loft.name }}}}"}}


@pytest.mark.parametrize(
    ("wanted", "resolved"),
    [
        ("1.2.0", "v1.2.0"),
        ("1.2.X", "v1.2.10"),
        ("1.X.x", "v1.10.0"),
        ("", "v2.0.0"),
    ],
)
def test_version_is_exact_or_the_newest_that_the_pattern_allows(wanted: str, resolved: str) -> None:
    template = _template("1.2.0", "1.2.10", "1.2.9", "1.10.0", "2.0.0")
    rendered = resolve(_instance(templateRef={"name": "t", "version": wanted}), template)
    assert rendered["objects"] == f"{resolved} ep-one"


@pytest.mark.parametrize(
    ("reference", "template", "reason"),
    [
        ({"name": "gone", "version": "1.0.0"}, None, "TemplateNotFound"),
        ({"name": "t", "version": "1.0"}, _template("1.0.0"), "VersionError"),
        ({"name": "t", "version": "latest"}, _template("1.0.0"), "VersionError"),
        ({"name": "t", "version": "1.0.1"}, _template("1.0.0"), "VersionNotFound"),
        ({"name": "t", "version": "2.X.X"}, _template("1.0.0"), "VersionNotFound"),
        ({"name": "t", "version": "1.0.0"}, {"spec": {"template": {}}}, "VersionNotFound"),
    ],
)
def test_unresolvable_template_says_which_reason(reference: Json, template: Json | None, reason: str) -> None:
    with pytest.raises(TemplateError) as caught:
        resolve(_instance(templateRef=reference), template)
    assert caught.value.reason == reason


def test_parameters_are_a_yaml_string_with_defaults_from_the_version() -> None:
    template: Json = {
        "spec": {
            "versions": [
                {
                    "version": "1.0.0",
                    "parameters": [{"variable": "nodes", "type": "number", "defaultValue": "1"}, {"variable": "model"}],
                    "template": {
                        "helmRelease": {"values": "quantity: {{ .Values.nodes }}\nmodel: '{{ .Values.model }}'"}
                    },
                }
            ]
        }
    }
    reference = {"name": "t", "version": "1.0.0"}
    rendered = resolve(_instance(templateRef=reference, parameters="model: gemma"), template)
    assert rendered["helmRelease"]["values"] == "quantity: 1\nmodel: 'gemma'"
    rendered = resolve(_instance(templateRef=reference, parameters="model: gemma\nnodes: 3"), template)
    assert rendered["helmRelease"]["values"].startswith("quantity: 3\n")


def test_parameters_that_are_no_mapping_are_a_parameter_error() -> None:
    with pytest.raises(TemplateError) as caught:
        resolve(_instance(template={}, parameters="- a\n- b"), None)
    assert caught.value.reason == "ErrorSyncingParameters"


@pytest.mark.parametrize(
    ("declared", "given_values"),
    [
        ({"variable": "x", "required": True}, {}),
        ({"variable": "x", "type": "number"}, {"x": "many"}),
        ({"variable": "x", "type": "number", "min": 1}, {"x": 0}),
        ({"variable": "x", "type": "number", "max": 4}, {"x": "5"}),
        ({"variable": "x", "type": "boolean"}, {"x": "yes"}),
        ({"variable": "x", "options": ["a", "b"]}, {"x": "c"}),
    ],
)
def test_bad_parameter_is_refused_by_name(declared: Json, given_values: Json) -> None:
    with pytest.raises(TemplateError, match="parameter x") as caught:
        fill_parameters([declared], given_values)
    assert caught.value.reason == "ErrorSyncingParameters"


@pytest.mark.parametrize(
    "text",
    [
        "{{ .Values.missing }}",
        "{{ .Values.x | quote }}",
        "{{ if .Values.x }}yes{{ end }}",
        "{{ .Release.Name }}",
        "{{- .Values.x }}",
        "{{ .Values.loft.missing }}",
    ],
)
def test_hole_that_is_no_known_name_is_a_rendering_error(text: str) -> None:
    with pytest.raises(TemplateError) as caught:
        render({"deep": [text]}, {"x": "1", "loft": {"name": "ep"}})
    assert caught.value.reason == "ErrorRenderingTemplate"


def test_values_are_printed_as_go_prints_them() -> None:
    values = {"yes": True, "three": 3, "half": 0.5, "text": "a: b"}
    filled = render("{{.Values.yes}} {{ .Values.three }} {{ .Values.half }} {{ .Values.text }}", values)
    assert filled == "true 3 0.5 a: b"


@given(st.text())
def test_text_without_holes_is_left_as_it_is(text: str) -> None:
    if "{{" not in text:
        assert render(text, {}) == text


@given(st.text())
def test_any_value_stands_in_the_text_as_it_is_and_is_not_filled_again(value: str) -> None:
    assert render("<{{ .Values.x }}>", {"x": value}) == f"<{value}>"
