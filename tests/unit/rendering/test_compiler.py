"""What templates may do, what they may not, and how they are told: file, line, name, hint."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from provisioner.catalog.document import MAX_BYTES
from provisioner.catalog.pack import PackFiles
from provisioner.domain.errors import InvariantError, RejectedError
from provisioner.rendering.compiler import Compiled, Slots, SlotValue, compile_templates
from provisioner.rendering.slots import SlotType

SLOTS = Slots({"name": SlotType.TEXT, "count": SlotType.NUMBER}, {"items": 2})
VALUES: Mapping[str, SlotValue] = {"name": 'a"\\\n%é', "count": 3, "items": ("x: y", "#")}
USES_ALL = 'items: ["{{ name }}{{ count }}", {% for item in items %}"{{ item }}", {% endfor %}]\n'
HEAD = "apiVersion: v1\nkind: Thing\nmetadata:\n  name: thing\n"


def compiled(folder: Path, text: str, *, constants: Mapping[str, Any] | None = None, slots: Slots = SLOTS) -> Compiled:
    (folder / "thing.yaml.j2").write_text(text)
    return compile_templates(PackFiles((folder,)), ["thing.yaml.j2"], constants=constants or {}, slots=slots)


def refusal(folder: Path, text: str, **constants: Any) -> RejectedError:
    with pytest.raises(RejectedError) as caught:
        compiled(folder, text, constants=constants)
    return caught.value


def test_slots_print_as_typed_values_whatever_they_hold(tmp_path: Path) -> None:
    group = compiled(tmp_path, HEAD + USES_ALL + 'count: {{ count }}\ntext: "{{ count }} of {{ name }}"\n')
    [thing] = group.objects(VALUES)
    assert thing["count"] == 3
    assert thing["text"] == '3 of a"\\\n%é'
    assert thing["items"] == ['a"\\\n%é3', "x: y", "#"]
    assert group.files(VALUES) == {
        "thing.thing.yaml": (
            'apiVersion: v1\ncount: 3\nitems:\n  - "a\\"\\\\\\n%é3"\n  - "x: y"\n  - "#"\nkind: Thing\n'
            'metadata:\n  name: thing\ntext: "3 of a\\"\\\\\\n%é"\n'
        ).encode()
    }


def test_text_with_a_slot_passes_through_set_macro_block_and_include(tmp_path: Path) -> None:
    (tmp_path / "part.j2").write_text("{% macro twice(word) %}{{ word }}{{ word }}{% endmacro %}")
    (tmp_path / "line.j2").write_text('included: "{{ name }}"\n')
    text = (
        "{% from 'part.j2' import twice %}{% set both = name ~ '/' ~ count %}{% set held %}<{{ name }}>{% endset %}"
        + HEAD
        + USES_ALL
        + 'both: "{{ both }}"\nheld: "{{ held }}"\ntwice: "{{ twice(name) }}"\n'
        + "nested:\n{% filter indent(2, first=True) %}\n{% include 'line.j2' %}\n{% endfilter %}\n"
    )
    [thing] = compiled(tmp_path, text).objects({**VALUES, "name": "n"})
    assert (thing["both"], thing["held"], thing["twice"]) == ("n/3", "<n>", "nn")
    assert thing["nested"] == {"included": "n"}


@pytest.mark.parametrize(
    "use",
    [
        "{% if name %}{% endif %}",
        "{% if not name %}{% endif %}",
        "{% if name == 'x' %}{% endif %}",
        "{% if 'x' in name %}{% endif %}",
        "{% if count > 1 %}{% endif %}",
        "{% if count is odd %}{% endif %}",
        "{% if name is defined %}{% endif %}",
        "{% if name and name %}{% endif %}",
        "{% if name ~ '' == 'x' %}{% endif %}",
        "{% for letter in name %}{% endfor %}",
        "{% for item in items if item %}{% endfor %}",
        "{% set copy = name ~ 'x' %}{% if copy %}{% endif %}",
        "{% set held %}{{ name }}{% endset %}{% if held == 'x' %}{% endif %}",
        "{% macro choose(word) %}{% if word %}{% endif %}{% endmacro %}{{ choose(name) }}",
        "{% macro choose(word) %}{% if word %}{% endif %}{% endmacro %}{{ choose(word=name) }}",
        "{% macro say(word) %}{{ word }}{% endmacro %}{% if say(name) == 'x' %}{% endif %}",
        "{% for item in items %}{% if item == 'x' %}{% endif %}{% endfor %}",
        "{{ 'a' if name else 'b' }}",
        "{{ name + 'x' }}",
        "{{ count + 1 }}",
        "{{ -count }}",
        "{{ '%s' % name }}",
        "{{ name[0] }}",
        "{{ name.upper() }}",
        "{{ name.attribute }}",
        "{{ {name: 1} }}",
        "{{ {'x': 1}[name] }}",
        "{{ name | upper }}",
        "{{ name | length }}",
        "{{ name | default('x') }}",
        "{{ name | replace('a', 'b') }}",
        "{{ (name ~ 'x') | upper }}",
        "{{ items | join(',') }}",
        "{{ items | length }}",
        "{{ items[0] }}",
        "{% filter upper %}{{ name }}{% endfilter %}",
        "{{ hole(name) }}",
    ],
)
def test_slot_cannot_be_used_for_anything_but_printing(tmp_path: Path, use: str) -> None:
    error = refusal(tmp_path, HEAD + USES_ALL + f'use: "{use}"\n')
    assert error.reason == "SlotMisused"
    [finding] = error.findings
    assert (finding.file, finding.line) == ("thing.yaml.j2", 6)
    assert finding.hint


@pytest.mark.parametrize(
    "use",
    [
        "{% if name %}{% endif %}",
        "{% if name ~ 'x' == 'y' %}{% endif %}",
        "{% set copy = name %}{% if copy is defined %}{% endif %}",
        "{% for letter in name %}{% endfor %}",
        "{{ {'x': 1}[name] }}",
        "{{ name | upper }}",
    ],
)
def test_slot_is_refused_on_a_branch_that_this_shape_never_takes(tmp_path: Path, use: str) -> None:
    error = refusal(tmp_path, HEAD + USES_ALL + "{% if False %}\n" + use + "\n{% endif %}\n")
    assert error.reason == "SlotMisused"
    assert error.findings[0].line == 7


@pytest.mark.parametrize("decision", ["said is string", "said == 'x'", "said", "said | upper", "'x' in said"])
def test_text_that_a_macro_of_another_file_printed_a_slot_into_stays_a_slot(tmp_path: Path, decision: str) -> None:
    (tmp_path / "part.j2").write_text("{% macro say() %}{{ name }}{% endmacro %}")
    text = "{% from 'part.j2' import say with context %}{% set said = say() %}" + HEAD + USES_ALL
    assert refusal(tmp_path, text + f"{{% if {decision} %}}{{% endif %}}\n").reason == "SlotMisused"


def test_misuse_in_an_included_file_names_that_file(tmp_path: Path) -> None:
    (tmp_path / "part.j2").write_text("{# first line #}\n{% if name %}x: 1{% endif %}\n")
    error = refusal(tmp_path, HEAD + USES_ALL + "{% include 'part.j2' %}\n")
    assert str(error).startswith("compiling template `part.j2:2`: slot `name` ")


@pytest.mark.parametrize(
    "line",
    ["value: {{ name }}", "value: '{{ name }}'", "value: {{ count }}x", "value: >\n  {{ name }}", "{{ name }}: 1"],
)
def test_text_slot_outside_double_quotes_is_an_error(tmp_path: Path, line: str) -> None:
    error = refusal(tmp_path, HEAD + USES_ALL + line + "\n")
    assert error.reason in {"SlotOutsideQuotes", "TemplateNotYaml"}
    assert error.findings[0].line in {6, 7}


@pytest.mark.parametrize(
    "scalar",
    [
        "yes",
        "No",
        "on",
        "y",
        "~",
        "0644",
        "1e3",
        "1_000",
        "12:30:00",
        "2026-01-01",
        "0x1f",
        ".5",
        "1.",
        ".inf",
        "-.Inf",
        "+1",
    ],
)
def test_plain_value_on_which_readers_disagree_is_an_error(tmp_path: Path, scalar: str) -> None:
    error = refusal(tmp_path, HEAD + USES_ALL + f"value: {scalar}\n")
    assert error.reason == "AmbiguousValue"
    assert f"`{scalar}`" in str(error)
    assert error.findings[0].line == 6


@pytest.mark.parametrize(
    ("text", "reason", "line"),
    [
        ('value: "{{ nobody }}"', "TemplateFailed", 6),
        ("{% if %}", "TemplateSyntax", 6),
        ("value: {{ ''.__class__.__mro__ }}", "TemplateFailed", 6),
        ("value: {{ 'x' * 1000000000 }}", "TemplateFailed", 6),
        ("value: {{ 9 ** 9 ** 9 }}", "TemplateFailed", 6),
        ("value: {{ 'x' | center(2000000000) }}", "TemplateFailed", 6),
        ("value: {{ '%2000000000d' | format(1) }}", "TemplateFailed", 6),
        ("value: {{ 'x'.ljust(2000000000) }}", "TemplateFailed", 6),
        ("value: {{ '{:2000000000}'.format(1) }}", "TemplateFailed", 6),
        ("value: [", "TemplateNotYaml", 6),
        ("kind: Other", "TemplateNotYaml", 6),
        ("value: &anchor 1", "TemplateNotYaml", 6),
        ("value: !tag 1", "TemplateNotYaml", 6),
    ],
)
def test_broken_template_is_told_by_file_and_line(tmp_path: Path, text: str, reason: str, line: int) -> None:
    error = refusal(tmp_path, HEAD + USES_ALL + text + "\n")
    assert error.reason == reason
    assert (error.findings[0].file, error.findings[0].line) == ("thing.yaml.j2", line)


@pytest.mark.parametrize(
    ("data", "line", "words"),
    [
        (b"# \xff\n", 6, "not UTF-8 at byte"),
        (b"# " + b"x" * MAX_BYTES, 1, f"more bytes than {MAX_BYTES}"),
        (b"{% include 'thing.yaml.j2' %}\n", 6, "without end"),
    ],
    ids=["latin-1", "too large", "includes itself"],
)
def test_file_that_is_no_template_is_told_by_its_line(tmp_path: Path, data: bytes, line: int, words: str) -> None:
    (tmp_path / "thing.yaml.j2").write_bytes((HEAD + USES_ALL).encode() + data)
    with pytest.raises(RejectedError, match=words) as error:
        compile_templates(PackFiles((tmp_path,)), ["thing.yaml.j2"], constants={}, slots=SLOTS)
    assert (error.value.findings[0].file, error.value.findings[0].line) == ("thing.yaml.j2", line)


TWICE = "{% set x = [1, 2, 3, 4] %}" + "{% set x = x + x %}" * 10


@pytest.mark.parametrize(
    "text",
    [
        "{% set x = 'xxxxxxxx' %}" + "{% set x = x ~ x %}" * 60,
        "{% set x = 'xxxxxxxx' %}" + "{% set x = x + x %}" * 60,
        "{% set x %}xxxxxxxx{% endset %}" + "{% set x %}{{ x }}{{ x }}{% endset %}" * 60,
        "{% set x = 'xxxxxxxx' %}" + "{% set x = x | replace('x', x) %}" * 60,
        "{% set x = 'xxxxxxxx' %}" + "{% set x = x.replace('x', x) %}" * 60,
        "{% set x = 'xxxxxxxx' %}" + "{% set x = [x, x] | join(x) %}" * 60,
        "{% set x = 'xxxxxxxx' %}" + "{% set x = x | map('upper') | join(x) %}" * 60,
        "{% set x = 'xxxxxxxx' %}" + "{% set x = x.join(x) %}" * 60,
        "{% set x = 'x y z ' %}" + "{% set x = x ~ x %}" * 17 + "{{ x | wordwrap(1, true, x) }}",
        "{% set x = '  ' | indent(9) %}" + "{% set x %}{{ x }}\n{{ x }}{% endset %}" * 14 + "{{ x | indent(1000) }}",
        "{% set x = [1] %}" + "{% set x = [x, x] %}" * 60 + "{{ x }}",
        "{% set x = [1] %}{% set y = [1] %}" + "{% set x = [x, x] %}{% set y = (y, y) %}" * 60 + "{{ x == y }}",
        "{% set x = {'a': 1} %}" + "{% set x = {'a': x, 'b': x} %}" * 60 + "{{ x | tojson }}",
        "{% set x = [1] %}" + "{% set x = [1] | batch(1000, x) | list %}" * 8 + "{{ x }}",
        TWICE + "{% set x = [x] %}" * 200 + "{{ x | tojson(indent=1000) }}",
        "{% for a in range %}{% for b in range %}{% for c in range %}x{% endfor %}{% endfor %}{% endfor %}",
        "{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}",
        "{% include 'thing.yaml.j2' %}{% include 'thing.yaml.j2' %}",
    ],
)
def test_template_that_grows_without_end_is_refused_before_it_does(tmp_path: Path, text: str) -> None:
    tracemalloc.start()
    try:
        error = refusal(tmp_path, HEAD + USES_ALL + text + "\n", range=list(range(300)))
        assert (error.reason, error.findings[0].file) == ("TemplateFailed", "thing.yaml.j2")
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()


def test_template_that_works_without_end_is_refused_before_long(tmp_path: Path) -> None:
    started = time.process_time()
    text = TWICE + "{% for a in x %}{% set y = x | sort %}{% endfor %}"
    assert refusal(tmp_path, HEAD + USES_ALL + text + "\n").reason == "TemplateFailed"
    assert time.process_time() - started < 10


def test_parameter_that_no_template_reads_is_an_error(tmp_path: Path) -> None:
    error = refusal(tmp_path, HEAD + USES_ALL, forgotten=1)
    assert error.reason == "ParameterUnused"
    assert "`forgotten`" in str(error)


def test_document_that_is_no_object_and_file_that_is_not_there_are_errors(tmp_path: Path) -> None:
    assert refusal(tmp_path, USES_ALL).reason == "NotAnObject"
    assert refusal(tmp_path, "{% include '../secret' %}").reason == "TemplateMissing"


def test_derived_text_of_every_list_item_stays_a_slot(tmp_path: Path) -> None:
    loop = """{% for item in items %}{% set both = item ~ '!' %}"{{ both }}", {% endfor %}"""
    text = HEAD + USES_ALL + f"more: [{loop}]\n"
    assert compiled(tmp_path, text).objects({**VALUES, "items": ("a", "b")})[0]["more"] == ["a!", "b!"]
    decided = loop.replace("{% endfor %}", "{% if both %}{% endif %}{% endfor %}")
    assert "slot `items`" in str(refusal(tmp_path, text.replace(loop, decided)))


def test_fault_of_python_inside_a_template_is_told_by_file_and_line(tmp_path: Path) -> None:
    error = refusal(tmp_path, HEAD + USES_ALL + "value: {{ word + 1 }}\n", word="x")
    assert (error.reason, error.findings[0].line) == ("TemplateFailed", 6)


def test_two_objects_of_one_name_are_not_written_over_each_other(tmp_path: Path) -> None:
    with pytest.raises(InvariantError, match="same kind, namespace and name"):
        compiled(tmp_path, HEAD + USES_ALL + "---\n" + HEAD).files(VALUES)


def test_branch_on_a_constant_gives_one_variant_per_shape(tmp_path: Path) -> None:
    text = HEAD + USES_ALL + "{% if big %}\nsize: 2\n{% endif %}\n"
    assert compiled(tmp_path, text, constants={"big": True}).objects(VALUES)[0]["size"] == 2
    assert "size" not in compiled(tmp_path, text, constants={"big": False}).objects(VALUES)[0]


def test_template_may_make_no_object_or_several(tmp_path: Path) -> None:
    none = "{% if False %}" + HEAD + USES_ALL + "{% endif %}\n"
    assert compiled(tmp_path, none).objects(VALUES) == []
    assert len(compiled(tmp_path, HEAD + USES_ALL + "---\n" + HEAD).objects(VALUES)) == 2


@pytest.mark.parametrize(
    "values",
    [
        {},
        {**VALUES, "more": "x"},
        {**VALUES, "name": 1},
        {**VALUES, "count": "1"},
        {**VALUES, "count": True},
        {**VALUES, "items": ("one",)},
    ],
)
def test_values_that_are_not_those_of_the_slots_are_our_bug(tmp_path: Path, values: dict[str, SlotValue]) -> None:
    with pytest.raises(InvariantError):
        compiled(tmp_path, HEAD + USES_ALL).objects(values)


def test_half_a_surrogate_pair_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RejectedError, match=r"U\+D83D"):
        compiled(tmp_path, HEAD + USES_ALL).files({**VALUES, "name": "\ud83d"})
