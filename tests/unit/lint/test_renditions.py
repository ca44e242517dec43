"""What charts and folders of templates make is judged like files, and told at the templates' own lines."""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path

import pytest

from tests.lint.worlds import lint, told

HEAD = "apiVersion: v2\nname: router\nversion: 1.0.0\n"
ROUTER = """\
{{- if .Values.enabled }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}
  namespace: {{ .Release.Namespace }}
spec:
  replicas: {{ .Values.replicas }}
  selector:
    matchLabels: {app: {{ .Chart.Name }}}
  template:
    metadata:
      labels: {app: {{ .Chart.Name }}}
    spec:
      containers:
        - name: router
          image: {{ .Values.image }}
          resources:
            {{- toYaml .Values.resources | nindent 12 }}
{{- end }}
"""
VALUES = """\
enabled: true
replicas: 2
image: registry.example.com/acme/router:v1.4.0
resources: {requests: {cpu: 100m, memory: 64Mi}}
"""


def chart(folder: Path, *, values: str = VALUES, router: str = ROUTER, head: str = HEAD) -> Path:
    """A chart of one workload."""
    (folder / "templates").mkdir(parents=True)
    (folder / "Chart.yaml").write_text(head)
    (folder / "values.yaml").write_text(values)
    (folder / "templates" / "router.yaml").write_text(router)
    return folder


def errors(folder: Path) -> list[tuple[str, int | None]]:
    """Rule and line of everything but information."""
    return [(finding.rule, finding.line) for finding in lint(folder) if finding.severity != "info"]


def test_a_correct_chart_has_no_finding(tmp_path: Path) -> None:
    assert not errors(chart(tmp_path / "router"))


def test_a_finding_stands_at_the_line_of_the_template(tmp_path: Path) -> None:
    folder = chart(tmp_path / "router", values=VALUES.replace("replicas: 2", "replicas: two"))
    assert ("schema-wrong-type", 8) in errors(folder)


def test_what_an_action_prints_on_many_lines_stands_at_the_action(tmp_path: Path) -> None:
    folder = chart(tmp_path / "router", values=VALUES.replace("memory: 64Mi", "memory: 64MB"))
    assert {line for _, line in errors(folder)} == {19}


def test_a_value_that_the_chart_leaves_empty_is_nobodys_mistake(tmp_path: Path) -> None:
    folder = chart(tmp_path / "router", values=VALUES.replace("registry.example.com/acme/router:v1.4.0", '""'))
    assert not errors(folder)


@pytest.mark.parametrize(
    "unknown", ["{{ genCA }}", '{{ fail "no" }}', '{{ required "r" .Values.gone }}', "{{ .Files.Glob }}"]
)
def test_a_chart_with_anything_unknown_is_not_judged_by_what_it_makes(tmp_path: Path, unknown: str) -> None:
    folder = chart(tmp_path / "router", values=VALUES.replace("replicas: 2", "replicas: two"))
    (folder / "templates" / "other.yaml").write_text(f"# a\n# {unknown}\n")
    assert "schema-wrong-type" not in [rule for rule, _ in errors(folder)]
    [told_of] = [found for found in lint(folder) if found.rule == "not-rendered"]
    assert (told_of.file, told_of.line) == (f"{folder}/templates/other.yaml", 2)


def test_the_template_that_leaves_a_chart_unrendered_is_the_one_that_is_included(tmp_path: Path) -> None:
    folder = chart(tmp_path / "router", router=ROUTER.replace("{{ .Chart.Name }}", '{{ include "secret" . }}'))
    (folder / "templates" / "_secret.tpl").write_text('{{- define "secret" -}}\n{{ genCA }}\n{{- end }}\n')
    [told_of] = [found for found in lint(folder) if found.rule == "not-rendered"]
    assert (told_of.file, told_of.line) == (f"{folder}/templates/_secret.tpl", 2)


def test_the_line_that_leaves_a_folder_unrendered_is_told(tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text("name: chat\n")
    (tmp_path / "a.yaml.j2").write_text("# {{ name }}\n{% include 'part.j2' %}\n")
    (tmp_path / "part.j2").write_text("# first\n# {{ name | b64encode }}\n")
    [told_of] = [found for found in lint(tmp_path) if found.rule == "not-rendered"]
    assert (told_of.file, told_of.line) == (f"{tmp_path}/part.j2", 2)


def test_a_chart_whose_dependency_would_add_objects_is_not_judged_by_what_it_makes(tmp_path: Path) -> None:
    head = f"{HEAD}dependencies: [{{name: redis, version: 20.1.0, repository: 'https://charts.example.com'}}]\n"
    folder = chart(tmp_path / "router", values=VALUES.replace("replicas: 2", "replicas: two"), head=head)
    assert "schema-wrong-type" not in [rule for rule, _ in errors(folder)]


def test_objects_of_one_chart_are_none_of_another_charts_business(tmp_path: Path) -> None:
    spec = "{selector: {app: router}, ports: [{port: 80}]}"
    service = f"apiVersion: v1\nkind: Service\nmetadata: {{name: other}}\nspec: {spec}\n"
    chart(tmp_path / "router")
    chart(tmp_path / "other", router=service, values="")
    assert "service-selects-nothing" not in [rule for rule, _ in errors(tmp_path)]


def test_a_chart_that_loops_ends_soon(tmp_path: Path) -> None:
    folder = chart(tmp_path / "router")
    loop = "{{ range until 9999 }}{{ range until 9999 }}{{ range until 9999 }}x{{ end }}{{ end }}{{ end }}\n"
    for number in range(20):
        (folder / "templates" / f"loop-{number}.yaml").write_text(loop)
    started = time.process_time()
    lint(folder)
    assert time.process_time() - started < 10


def test_jinja_that_loops_ends_soon(tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text("parameters:\n  - name: endpoint\n    type: string\n")
    loop = "{% for a in range(9999) %}{% for b in range(9999) %}{{ endpoint }}{% endfor %}{% endfor %}\n"
    (tmp_path / "loop.yaml.j2").write_text(loop)
    started = time.process_time()
    lint(tmp_path)
    assert time.process_time() - started < 10


def test_statements_of_jinja_inside_of_a_text_leave_a_manifest_what_it_is(tmp_path: Path) -> None:
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: Bad_name}\n"
    text = head + "data:\n  chat: |\n    {% for m in n %}\n    {% endfor %}\n"
    (tmp_path / "template.yaml").write_text(text)
    assert errors(tmp_path) == [("object-name-invalid", 3)], told(lint(tmp_path))


def test_a_manifest_with_holes_has_no_faults_of_its_holes(tmp_path: Path) -> None:
    metadata = '{name: "{{ endpoint }}", namespace: "{{ ns }}", labels: {a: "{{ b }}"}}'
    text = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {metadata}\n"
    (tmp_path / "limits.yaml").write_text(text)
    assert not errors(tmp_path)


@pytest.mark.parametrize("made", ["'%200000000d' % 1", "'x' | center(200000000)", "'x' * 200000000"])
def test_looking_for_the_names_of_a_template_computes_nothing(tmp_path: Path, made: str) -> None:
    (tmp_path / "values.yaml").write_text("name: chat\n")
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
    (tmp_path / "a.yaml.j2").write_text(f"{head}data: {{a: '{{{{ {made} }}}}', b: '{{{{ nmae }}}}'}}\n")
    tracemalloc.start()
    try:
        assert ("template-hole-undeclared", 4) in errors(tmp_path)
        assert tracemalloc.get_traced_memory()[1] < 100_000_000
    finally:
        tracemalloc.stop()
