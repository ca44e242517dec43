"""Jinja that anybody wrote is rendered with the place of every line, or not at all, and always ends soon."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provisioner.lint.jinja_text import render
from provisioner.lint.rendition import NotRendered, Place, RenderedText

VALUES: dict[str, Any] = {"name": "chat", "ports": [80, 443], "labels": {"app": "chat"}, "many": list(range(1000))}


def rendered(text: str, **others: str) -> RenderedText:
    """What a template named `main` prints, with others beside it."""
    templates = {"main": text, **others}
    return render("main", lambda name: (name, templates[name]) if name in templates else None, VALUES)


def test_every_line_knows_the_template_that_it_comes_from() -> None:
    found = rendered(
        "a: {{ name }}\n{% for port in ports %}\n- {{ port }}\n{% endfor %}\n{% include 'part' %}\nlast: 1\n",
        part="# of the part\nb: 2\n",
    )
    assert found.text == "a: chat\n- 80\n- 443\n# of the part\nb: 2\nlast: 1\n"
    assert [tuple(place) for place in found.places[:6]] == [
        *(("main", 1), ("main", 3), ("main", 3), ("part", 1), ("part", 2)),
        ("main", 6),
    ]


def test_text_without_any_line_end_has_a_place() -> None:
    assert rendered("a: 1").places == [Place("main", 1)]


@pytest.mark.parametrize(
    "text",
    [
        "{{ nobody }}",
        "{{ name | to_nice_yaml }}",
        "{% include 'nobody' %}",
        "{{ name.__class__.__mro__ }}",
        "{{ name.format(1) }}",
        "{{ '{:>1000000000}'.format(1) }}",
        "{{ lipsum(n=10000) }}",
        "{{ ''.join(['a']) }}",
        "{% for a in many %}{% for b in many %}{% for c in many %}x{% endfor %}{% endfor %}{% endfor %}",
        "{% for a in range(10 ** 9) %}x{% endfor %}",
        "{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}",
        "{% set x = 'xxxxxxxx' %}" + "{% set x = x ~ x %}" * 60 + "{{ x }}",
        "{% set x = 'xxxxxxxx' %}" + "{% set x = x + x %}" * 60 + "{{ x }}",
        "{% set x %}xxxxxxxx{% endset %}" + "{% set x %}{{ x }}{{ x }}{% endset %}" * 60,
        "{% set x = 'xxxxxxxx' %}" + "{% set x = [x, x] | join(x) %}" * 60,
        "{% set x = 'xxxxxxxx' %}" + "{% set x = x | replace('x', x) %}" * 60,
        "{% set x = [1] %}" + "{% set x = [x, x] %}" * 60 + "{{ x }}",
        "{% set x = [1] %}{% set y = [1] %}" + "{% set x = [x, x] %}{% set y = (y, y) %}" * 60 + "{{ x == y }}",
        "{% set x = {'a': 1} %}" + "{% set x = dict(a=x, b=x) %}" * 60 + "{{ x | tojson }}",
        "{% for a in many %}{% set y = many | map('string') | sort | join(',') %}{% endfor %}",
        "{{ 'x' * 10 ** 9 }}",
        "{{ 9 ** 999 }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ name | indent(1000000000) }}",
        "{{ name | center(2000000000) }}",
        "{{ 1 | round(2000000000, 'ceil') }}",
        "{{ [1] | tojson(indent=2000000000) }}",
        "{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}",
        "{% include 'main' %}{% include 'main' %}",
        "{{ ([[[[1]]]] | string) | wordwrap(1) }}",
        "{" + "% if true %" + "}" + "{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}",
    ],
)
def test_what_is_not_known_or_takes_too_long_is_not_rendered(text: str) -> None:
    started = time.process_time()
    with pytest.raises(NotRendered):
        rendered(text)
    assert time.process_time() - started < 5


WORDS = st.sampled_from(
    [
        *(
            "{{",
            "}}",
            "{%",
            "%}",
            "{#",
            "#}",
            "if",
            "endif",
            "for",
            "in",
            "endfor",
            "set",
            "=",
            "macro",
            "endmacro",
            "m",
        ),
        *(
            "(",
            ")",
            "[",
            "]",
            "'a'",
            "1",
            "-1",
            "~",
            "+",
            "*",
            "|",
            ".",
            ",",
            "name",
            "ports",
            "labels",
            "many",
            "loop",
        ),
        *("join", "default", "tojson", "replace", "sort", "map", "length", "items", "range", "include", "'main'", "\n"),
        *("is", "not", "defined", "else", "block", "endblock", "call", "endcall", "caller", "raw", "endraw", "import"),
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(WORDS, max_size=30).map(" ".join))
def test_whatever_stands_in_a_template_nothing_else_is_raised(text: str) -> None:
    with suppress(NotRendered):
        assert len(rendered(text).places) == rendered(text).text.count("\n") + 1
