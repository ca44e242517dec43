"""Go templates print what Helm prints, or say that they are not known, and always end soon."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provisioner.lint.go_templates.faults import TemplateFault, Unknown
from provisioner.lint.go_templates.names import IMPLEMENTED, KNOWN
from provisioner.lint.go_templates.running import Machine
from provisioner.lint.go_templates.syntax import parse

VALUES: dict[str, Any] = {
    "port": 8000,
    "ratio": 0.85,
    "on": True,
    "many": 1.5e6,
    "few": 16384.0,
    "name": "chat",
    "empty": "",
    "hosts": ["a.example.com", "b.example.com"],
    "labels": {"team": "acme", "app": "chat"},
    "image": {"repository": "vllm", "tag": "v0.10.1"},
    "nested": [{"name": "A", "value": "1"}, {"name": "B", "value": "a: b"}],
    "text": "{{ .Release.Name }}-web",
}
ROOT = {"Values": VALUES, "Release": {"Name": "rel"}, "Chart": {"Name": "router"}}


def printed(source: str) -> str:
    """What a template prints, holes in angle brackets."""
    parsed = parse(source)
    machine = Machine(parsed.defined, "<{}>".format)
    return "".join(text for _, text, _ in machine.run(parsed.body, ROOT))


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("{{ .Values.port }}", "8000"),
        ("{{ .Values.ratio }} {{ 1.0 }} {{ .Values.on }}", "0.85 1 true"),
        ("a {{- 1 -}} b", "a1b"),
        ("a {{/* said to people */}}b {{- /* more */ -}} c", "a bc"),
        ("{{ .Values.nobody }}", "<Values.nobody>"),
        ("{{ .Values.empty | quote }}", '"<Values.empty>"'),
        ('{{ .Values.empty | default "x" }}', "x"),
        ("{{ .Values.name | upper | quote }}", '"CHAT"'),
        ("{{ if and .Values.on (eq .Values.port 8000) }}yes{{ else }}no{{ end }}", "yes"),
        ("{{ if .Values.empty }}1{{ else if .Values.on }}2{{ else }}3{{ end }}", "2"),
        ("{{ range $i, $h := .Values.hosts }}{{ $i }}={{ $h }};{{ end }}", "0=a.example.com;1=b.example.com;"),
        ("{{ range .Values.nested }}{{ .name }}{{ $.Release.Name }} {{ end }}", "Arel Brel "),
        ("{{ range $k, $v := .Values.labels }}{{ $k }}{{ end }}", "appteam"),
        ("{{ range .Values.gone }}x{{ else }}none{{ end }}", "none"),
        ("{{ range until 5 }}{{ if eq . 3 }}{{ break }}{{ end }}{{ . }}{{ end }}", "012"),
        ("{{ with .Values.image }}{{ .repository }}:{{ .tag }}{{ end }}", "vllm:v0.10.1"),
        ('{{ define "n" }}{{ .Chart.Name }}{{ end }}{{ include "n" . | nindent 2 }}', "\n  router"),
        ('{{ $x := "a" }}{{ if true }}{{ $x = "b" }}{{ end }}{{ $x }}', "b"),
        ("{{ toYaml .Values.labels }}", "app: chat\nteam: acme"),
        ("{{ toYaml .Values.nested | indent 2 }}", '  - name: A\n    value: "1"\n  - name: B\n    value: "a: b"'),
        ("{{ toYaml .Values.hosts }}", "- a.example.com\n- b.example.com"),
        ("{{ toJson .Values.image }}", '{"repository":"vllm","tag":"v0.10.1"}'),
        ("{{ tpl .Values.text . }}", "rel-web"),
        ('{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 7 | trimSuffix "-" }}', "rel-rou"),
        ('{{ printf "%d%% of %q" 3 "a" }}', '3% of "a"'),
        ('{{ ternary "a" "b" .Values.on }}{{ coalesce "" nil "c" }}', "ac"),
        ('{{ .Values.name | replace "c" "x" | b64enc }}', "eGhhdA=="),
        ('{{ semverCompare ">=1.19-0" "v1.34.0" }} {{ semverCompare "~1.2.3" "1.3.0" }}', "true false"),
        ('{{ index .Values.labels "team" }}{{ (index .Values.nested 0).name }}', "acmeA"),
        ('{{ dict "a" 1 "b" (list 1 2) | toJson }}', '{"a":1,"b":[1,2]}'),
        ("{{ len .Values.hosts }} {{ add 1 2 3 }} {{ mul 2 3 }} {{ div 7 2 }} {{ mod 7 2 }}", "2 6 6 3 1"),
        ('{{ merge (dict "a" 1) (dict "a" 2 "b" 3) | toJson }}', '{"a":1,"b":3}'),
        ("{{ hasKey .Values.labels \"app\" }}{{ kindIs \"map\" .Values.labels }}", "truetrue"),
        ('{{ join "," .Values.hosts }} {{ first .Values.hosts }}', "a.example.com,b.example.com a.example.com"),
        ("{{ .Values.labels }}", "map[app:chat team:acme]"),
        ("{{ `raw {{ }}` }}", "raw {{ }}"),
        ("{{ .Values.many }} {{ .Values.few }} {{ toJson .Values.many }}", "1.5e+06 16384 1500000"),
        ('{{ print "a" 1 2 "b" }} {{ seq 3 }} {{ seq 3 1 }}', "a1 2b 1 2 3 3 2 1"),
    ],
)  # fmt: skip
def test_it_prints_what_helm_prints(source: str, wanted: str) -> None:
    assert printed(source) == wanted


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("a\n{{ if .Values.on }}", 2),
        ("\n\n{{ end }}", 3),
        ("{{ .Values.name", 1),
        ("{{ }}", 1),
        ("{{ ( .Values.name }}", 1),
        ("{{ 'unclosed }}", 1),
        ("{{ if true }}\n{{ else }}\n{{ else }}{{ end }}", 1),
        ("{{ $nobody }}", 1),
    ],
)
def test_what_helm_refuses_is_a_fault_with_its_line(source: str, line: int) -> None:
    with pytest.raises(TemplateFault) as caught:
        printed(source)
    assert caught.value.line == line


@pytest.mark.parametrize(
    "source",
    [
        "{{ genCA }}",
        '{{ include "nobody" . }}',
        '{{ required "give it" .Values.nobody }}',
        '{{ fail "no" }}',
        "{{ .Values.name.first }}",
        "{{ .Files.Glob }}{{ .Files.Lines 1 }}",
        '{{ eq 1 "1" }}',
    ],
)
def test_what_is_not_known_is_said_so(source: str) -> None:
    with pytest.raises(Unknown):
        printed(source)


@pytest.mark.parametrize(
    "source",
    [
        '{{ define "a" }}{{ include "a" . }}{{ end }}{{ include "a" . }}',
        '{{ define "a" }}{{ template "b" }}{{ end }}{{ define "b" }}{{ template "a" }}{{ end }}{{ template "a" }}',
        "{{ range until 9999 }}{{ range until 9999 }}{{ range until 9999 }}x{{ end }}{{ end }}{{ end }}",
        "{{ range until 1000000000 }}x{{ end }}",
        '{{ repeat 1000000000 "x" }}',
        '{{ $x := "xxxxxxxxxxxxxxxx" }}{{ range until 99 }}{{ $x = printf "%s%s" $x $x }}{{ end }}{{ $x }}',
        "{{ $x := list 1 }}{{ range until 60 }}{{ $x = list $x $x }}{{ end }}{{ toYaml $x }}",
        '{{ $x := dict }}{{ $_ := set $x "a" $x }}{{ toJson $x }}',
        '{{ regexMatch "^(a+)+$" "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!" }}',
        '{{ replace "" (repeat 100000 "x") (repeat 100000 "y") }}',
        "{{ tpl (repeat 99999 \"{{ tpl .Values.text . }}\") . }}",
        '{{ define "a" }}{{ tpl "{{ include \\"a\\" . }}" . }}{{ end }}{{ include "a" . }}',
        "{{ if true }}" * 500 + "{{ end }}" * 500,
        "{{ " + "(" * 500 + "1" + ")" * 500 + " }}",
        "{{ 1 }}" * 200_000,
    ],
)  # fmt: skip
def test_a_hostile_template_ends_soon(source: str) -> None:
    started = time.process_time()
    with pytest.raises((Unknown, TemplateFault)):
        printed(source)
    assert time.process_time() - started < 5


WORDS = st.sampled_from(
    [
        *(
            "{{",
            "}}",
            "{{-",
            "-}}",
            "(",
            ")",
            "|",
            ":=",
            "=",
            ",",
            ".",
            "$",
            "$x",
            "if",
            "else",
            "end",
            "range",
            "with",
        ),
        *("define", "template", "block", "break", "continue", '"a"', "`b`", "'c'", "1", "-2.5", "0x1f", "nil", "true"),
        *(
            ".Values",
            ".Values.hosts",
            ".Values.labels",
            "$.Release.Name",
            "\n",
            " ",
            "text",
            "{{/* c */}}",
            "and",
            "or",
        ),
        *sorted(IMPLEMENTED),
    ]
)
OPERANDS = st.sampled_from(
    [".", "1", "-1", '""', '"a"', "nil", "true", ".Values.hosts", ".Values.labels", ".Values.ratio"]
)


@settings(max_examples=200, deadline=None)
@given(st.lists(WORDS, max_size=40).map(" ".join))
def test_whatever_stands_in_a_template_nothing_else_is_raised(source: str) -> None:
    try:
        printed(source)
    except (TemplateFault, Unknown) as error:
        assert error.line >= 1


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(sorted(KNOWN)), st.lists(OPERANDS, max_size=4))
def test_whatever_a_function_is_given_nothing_else_is_raised(name: str, operands: list[str]) -> None:
    try:
        printed(f"{{{{ {name} {' '.join(operands)} }}}}")
    except (TemplateFault, Unknown) as error:
        assert error.line == 1
