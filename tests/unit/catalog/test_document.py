"""Which YAML is read, and how the rest is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.catalog.document import MAX_BYTES, MAX_DEPTH, MOST_ALIKE, parse_document, read_document
from provisioner.domain.errors import RejectedError
from provisioner.domain.finding import Finding


def findings_of(text: str) -> tuple[Finding, ...]:
    with pytest.raises(RejectedError) as caught:
        parse_document(text, file="a.yaml")
    return caught.value.findings


def test_values_come_with_the_lines_they_stand_on() -> None:
    document = parse_document("a: 1\nb:\n  - {c: true}\n  - 2.5\nd: 'yes'\ne: ~\nf: text\n", file="a.yaml")
    assert document.value == {"a": 1, "b": [{"c": True}, 2.5], "d": "yes", "e": None, "f": "text"}
    assert document.line(("b", 1)) == 4
    assert document.line(("b", 0, "nothing here")) == 3
    assert document.line(("nowhere",)) == 1


def test_an_empty_document_is_null() -> None:
    assert parse_document("# nothing\n", file="a.yaml").value is None


@pytest.mark.parametrize(
    "value", ["y", "N", "yes", "NO", "on", "Off", "0644", "0o17", "0x1f", "1_000", "12:30:45", ".nan", ".inf", "1e999"]
)
def test_a_value_that_readers_of_yaml_disagree_about_is_refused(value: str) -> None:
    (finding,) = findings_of(f"a: 1\nb: {value}\n")
    assert finding.reason == "AmbiguousValue"
    assert (finding.file, finding.line, finding.field) == ("a.yaml", 2, "b")
    assert finding.hint is not None
    assert "quote it" in finding.hint


@pytest.mark.parametrize("value", ["2024-01-01", "2024-01-01T00:00:00Z"])
def test_a_date_must_be_quoted(value: str) -> None:
    assert findings_of(f"a: {value}\n")[0].reason == "AmbiguousValue"
    assert parse_document(f"a: '{value}'\n", file="a.yaml").value == {"a": value}


@pytest.mark.parametrize(
    ("text", "reason", "line"),
    [
        ("a: 1\nb: 2\na: 3\n", "DuplicateKey", 3),
        ("a: &x 1\n", "AnchorUsed", 1),
        ("a: 1\nb: *x\n", "AliasUsed", 2),
        ("*x : 1\n", "AliasUsed", 1),
        ("a: !!python/object:os.system 1\n", "TagUsed", 1),
        ("a: !x {}\n", "TagUsed", 1),
        ("<<: {a: 1}\n", "AmbiguousValue", 1),
        ("1: a\n", "KeyIsNoText", 1),
        ("? [a]\n: b\n", "KeyIsNoText", 1),
        ("a: 1\n---\nb: 2\n", "ManyDocuments", 2),
        ("%YAML 1.1\n---\na: 1\n", "DirectiveUsed", 1),
        ('a: b\nc: "d\u2028e"\n', "BadCharacter", 2),
        ("a: b\n\ufeffc: d\n", "BadCharacter", 2),
        ("a: [1\n", "NotYaml", 2),
        ("a: b: c\n", "NotYaml", 1),
        ('a: "\\0"\n', "BadCharacter", 1),
        ("a: \x07\n", "NotYaml", 1),
    ],
)
def test_what_is_outside_the_subset_is_refused_with_its_line(text: str, reason: str, line: int) -> None:
    finding = findings_of(text)[0]
    assert (finding.reason, finding.line) == (reason, line)


def test_all_findings_of_a_file_come_together() -> None:
    assert [finding.line for finding in findings_of("a: yes\na: 0644\nb: *x\n")] == [1, 2, 2, 3]


def test_a_deeply_nested_document_is_refused_without_recursion() -> None:
    assert findings_of("[" * 1_000)[0].reason == "TooDeep"
    assert findings_of("[" * 100_000)[0].reason in ("TooDeep", "NotYaml")
    assert parse_document("[" * MAX_DEPTH + "]" * MAX_DEPTH, file="a.yaml").value


def test_a_bomb_of_aliases_is_refused_at_its_first_anchor() -> None:
    bomb = "a: &a [x, x]\n" + "".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)}, *{chr(97 + n)}]\n" for n in range(9)
    )
    assert findings_of(bomb)[0].reason == "AnchorUsed"


def test_of_many_findings_alike_the_first_are_told_and_how_many_more_there_are() -> None:
    told = findings_of("a: *x\nb: [" + ", ".join(["*x"] * 100) + "]\nc: yes\n")
    assert [finding.reason for finding in told] == ["AliasUsed"] * MOST_ALIKE + ["AmbiguousValue", "AliasUsed"]
    assert told[-1].message.endswith(f"not shown: `{101 - MOST_ALIKE}`")
    assert (told[-1].line, told[-1].hint) == (2, told[0].hint)


def test_files_outside_the_folder_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside.yaml"
    outside.write_text("a: 1\n")
    root = tmp_path / "root"
    root.mkdir()
    (root / "link.yaml").symlink_to(outside)
    (root / "circle.yaml").symlink_to(root / "circle.yaml")
    (root / "folder.yaml").mkdir()
    (root / "big.yaml").write_bytes(b"#" * (MAX_BYTES + 1))
    (root / "latin.yaml").write_bytes("a: 1\nb: ä\n".encode("latin-1"))
    os.mkfifo(root / "pipe.yaml")
    reasons = {}
    for name in ("link", "circle", "folder", "big", "latin", "pipe", "missing"):
        with pytest.raises(RejectedError) as caught:
            read_document(root / f"{name}.yaml", root=root)
        reasons[name] = (caught.value.findings[0].reason, caught.value.findings[0].file, caught.value.findings[0].line)
    assert reasons == {
        "link": ("LinkLeadsOut", "link.yaml", None),
        "circle": ("Unreadable", "circle.yaml", None),
        "folder": ("NotAFile", "folder.yaml", None),
        "big": ("FileTooLarge", "big.yaml", 1),
        "latin": ("NotUtf8", "latin.yaml", 2),
        "pipe": ("NotAFile", "pipe.yaml", None),
        "missing": ("Unreadable", "missing.yaml", None),
    }


def test_a_link_inside_the_folder_is_followed(tmp_path: Path) -> None:
    (tmp_path / "data.yaml").write_text("a: 1\n")
    (tmp_path / "link.yaml").symlink_to("data.yaml")
    assert read_document(tmp_path / "link.yaml", root=tmp_path).value == {"a": 1}


@given(
    st.text()
    | st.lists(
        st.sampled_from(
            [
                "a",
                ":",
                " ",
                "\n",
                "- ",
                "[",
                "]",
                "{",
                "}",
                "&x",
                "*x",
                "!",
                '"',
                "'",
                "|",
                "0",
                "#",
                "?",
                ",",
                "%",
                "---",
                "<<",
            ]
        )
    ).map("".join)
)
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse_document(text, file="a.yaml")
    except RejectedError as error:
        assert error.findings
