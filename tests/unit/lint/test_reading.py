"""Reading: what is a value, what is an object, where it stands, and what happens with files that are none."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from provisioner.lint.files import MAX_BYTES
from provisioner.lint.reading import read_world
from provisioner.lint.values import Hole, TextHole
from provisioner.lint.world import World
from tests.lint.worlds import catalog

CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\ndata:\n"


def world(*paths: Path) -> World:
    """The world below some paths."""
    return read_world(paths, catalog=catalog(), kubernetes=(1, 34))


def written(folder: Path, text: str | bytes, name: str = "a.yaml") -> World:
    """The world of one file."""
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return world(folder)


def oddities(found: World) -> Sequence[tuple[str, str, int]]:
    """Rule, file name and line of everything that is odd."""
    return [(oddity.rule, Path(oddity.file).name, oddity.at_line) for oddity in found.oddities]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on", True),
        ("No", False),
        ("y", True),
        ("~", None),
        ("", None),
        ("null", None),
        ("0644", 420),
        ("0o17", 15),
        ("0x1F", 31),
        ("1_000", 1000),
        ("089", 89.0),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("-7", -7),
        ("12:30:00", "12:30:00"),
        ("2026-01-31", "2026-01-31"),
        (".inf", ".inf"),
        ("1.2.3", "1.2.3"),
        ("10Gi", "10Gi"),
        ('"on"', "on"),
        ("'0644'", "0644"),
        ("!!str 5", "5"),
        ("!!int '5'", 5),
    ],
)
def test_a_scalar_is_what_a_kubernetes_client_makes_of_it(tmp_path: Path, text: str, value: Any) -> None:
    found = written(tmp_path, f"{CONFIG_MAP}  key: {text}\n")
    assert found.objects[0].value["data"]["key"] == value
    assert type(found.objects[0].value["data"]["key"]) is type(value)


def test_keys_are_texts_whatever_they_look_like(tmp_path: Path) -> None:
    found = written(tmp_path, CONFIG_MAP + "  on: a\n  0644: b\n  8080: c\n  1.5: d\n  ~: e\n")
    assert list(found.objects[0].value["data"]) == ["true", "420", "8080", "1.5", "null"]


def test_documents_lists_windows_lines_and_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    items = json.dumps({"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "Namespace"}]})
    text = f"\ufeff# nothing here\n---\n{CONFIG_MAP}  a: b\n---\n---\n{items}\n...\n".replace("\n", "\r\n")
    found = written(tmp_path, text)
    assert [one.kind for one in found.objects] == ["ConfigMap", "Namespace"]
    assert found.objects[0].line(("data", "a")) == 8
    assert found.objects[1].line() == 11
    assert not found.oddities


def test_merge_keys_and_aliases_are_written_out(tmp_path: Path) -> None:
    text = "base: &base {a: x, b: w}\nkind: ConfigMap\napiVersion: v1\ndata:\n  <<: *base\n  b: z\nmore: *base\n"
    value = written(tmp_path, text).objects[0].value
    assert value["data"] == {"a": "x", "b": "z"}
    assert value["more"] == {"a": "x", "b": "w"}


def test_the_line_of_a_field_is_that_of_its_key_or_of_what_is_around_it(tmp_path: Path) -> None:
    text = "# comment\napiVersion: v1\nkind: Service\nspec:\n  ports:\n    - name: a\n\n    - name: b\n      port: 80\n"
    service = written(tmp_path, text).objects[0]
    assert service.line() == 2
    assert service.line(("spec", "ports", 1)) == 8
    assert service.line(("spec", "ports", 1, "port")) == 9
    assert service.line(("spec", "ports", 1, "targetPort", "x")) == 8
    assert service.line(("spec", "ports", 7)) == 5


TEMPLATE = """\
apiVersion: management.loft.sh/v1
kind: VirtualClusterTemplate
metadata:
  name: chat
spec:
  versions:
    - version: 1.0.0
      parameters:
        - variable: nodes
      template:
        objects: |
          apiVersion: v1
          kind: Namespace
          metadata:
            name: "{{ .Values.name }}"
        helmRelease:
          values: |
            {{- if .Values.private }}
            privateNodes:
              enabled: true
              autoNodes:
                - provider: metal3
                  static:
                    - quantity: {{ .Values.nodes }}
                      name: "gpu-{{ index .Values "name" }}"
            {{- end }}
"""


def test_texts_in_a_template_are_read_with_their_holes_and_their_lines(tmp_path: Path) -> None:
    found = written(tmp_path, TEMPLATE)
    template, namespace = found.objects
    assert namespace.inside is template
    assert namespace.line(("metadata", "name")) == 15
    (tenant,) = found.tenants
    assert tenant.template is template
    assert tenant.parameters == ({"variable": "nodes"},)
    pool = tenant.value["privateNodes"]["autoNodes"][0]["static"][0]
    assert type(pool["quantity"]) is Hole
    assert pool["quantity"] == "{{ .Values.nodes }}"
    assert type(pool["name"]) is TextHole
    assert pool["name"] == 'gpu-{{ index .Values "name" }}'
    assert tenant.line(("privateNodes", "autoNodes", 0, "static", 0, "quantity")) == 24


def test_a_broken_text_in_a_template_is_told_with_the_line_of_the_file(tmp_path: Path) -> None:
    found = written(tmp_path, TEMPLATE.replace("enabled: true", "enabled: [true"))
    assert [rule for rule, _, _ in oddities(found)] == ["yaml-malformed"]
    assert oddities(found)[0][2] in range(20, 24)


def test_tenant_cluster_values_are_known_by_name_or_by_their_keys(tmp_path: Path) -> None:
    (tmp_path / "vcluster.yaml").write_text("sleepMode: {}\n")
    (tmp_path / "prod-values.yaml").write_text("controlPlane:\n  distro:\n    k8s:\n      version: v1.34.0\n")
    (tmp_path / "values.yaml").write_text("replicas: 2\n")
    assert sorted(Path(tenant.file).name for tenant in world(tmp_path).tenants) == ["prod-values.yaml", "vcluster.yaml"]


def test_one_bad_document_does_not_hide_the_others(tmp_path: Path) -> None:
    found = written(tmp_path, f"{CONFIG_MAP}  a: b\n---\na: b: c\n---\n{CONFIG_MAP}  a: b\n")
    assert len(found.objects) == 2
    assert oddities(found) == [("yaml-malformed", "a.yaml", 8)]


def test_settings_and_other_tools_files_are_no_objects(tmp_path: Path) -> None:
    for name, text in {
        "compose.yaml": "services:\n  web:\n    image: x\n",
        "kubeconfig.yaml": "apiVersion: v1\nkind: Config\nclusters: []\n",
        "kind.yaml": "apiVersion: kind.x-k8s.io/v1alpha4\nkind: Cluster\n",
        ".github/workflows/ci.yaml": "on: push\n",
        "mkdocs.yml": "index: !!python/name:material.extensions.emoji.twemoji\n",
        "stack.yaml": "Resources:\n  Name: !Sub '${Stack}-bucket'\n",
        "tsconfig.json": "{\n  // strict\n  'strict': true,\n}\n",
        "readme.md": "- a: [\n",
    }.items():
        written(tmp_path, text, name)
    found = world(tmp_path)
    assert not found.objects
    assert not found.oddities


NESTED = "[" * 1_000_000
BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 30)
)
BAD: dict[str, tuple[str | bytes, str, int]] = {
    "tab": (CONFIG_MAP + "\ta: b\n", "yaml-malformed", 6),
    "quote": (CONFIG_MAP + '  a: "b\n', "yaml-malformed", 7),
    "null byte": (CONFIG_MAP + "  a: b\0c\n", "yaml-malformed", 6),
    "escape": (CONFIG_MAP + "  a: \x1b[31m\n", "yaml-malformed", 6),
    "utf-16": (CONFIG_MAP.encode("utf-16"), "file-encoding", 1),
    "utf-32": (CONFIG_MAP.encode("utf-32"), "file-encoding", 1),
    "latin": (CONFIG_MAP.encode() + b"  a: gr\xfcn\n", "file-encoding", 6),
    "brackets": (NESTED, "yaml-too-deep", 1),
    "braces": ("{a: " * 100_000, "yaml-too-deep", 1),
    "dashes": ("- " * 500_000, "yaml-too-deep", 1),
    "questions": ("? " * 500_000, "yaml-too-deep", 1),
    "indentation": ("".join(f"{' ' * n}a:\n" for n in range(2_000)), "yaml-too-deep", 1000),
    "aliases": (BOMB, "yaml-too-large", 5),
    "loop": ("a: &a [*a]\n", "yaml-too-deep", 1),
    "loop of mappings": ("a: &a\n  b: &b\n    c: *a\n", "yaml-too-deep", 1),
    "merge of itself": ("a: &a\n  <<: *a\n", "yaml-too-deep", 1),
    "many values": ("[" + "a," * 1_500_000 + "]", "yaml-too-large", 1),
    "unknown alias": ("a: *b\n", "yaml-malformed", 1),
    "twice": (CONFIG_MAP + "  a: b\n  a: c\n", "yaml-duplicate-key", 7),
    "tag": (CONFIG_MAP + "  a: !!python/object/apply:os.system ['true']\n", "yaml-unknown-tag", 6),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_text_is_told_with_its_line_and_never_raises(tmp_path: Path, name: str) -> None:
    text, rule, line = BAD[name]
    assert (rule, "a.yaml", line) in oddities(written(tmp_path, text))


@pytest.mark.parametrize(
    "text", ["a: " + "9" * 5_000, "a: 1e999999", "a: " + "1_" * 5_000, "? {a: b}\n: c", "? [a]\n: b"]
)
def test_odd_numbers_and_keys_do_no_harm(tmp_path: Path, text: str) -> None:
    written(tmp_path, CONFIG_MAP + f"  x: y\n---\n{text}\n")


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "a.yaml").open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    assert oddities(world(tmp_path)) == [("file-too-large", "a.yaml", 1)]


def test_what_is_no_file_is_told_and_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "nowhere.yaml").symlink_to("gone.yaml")
    (tmp_path / "circle.yaml").symlink_to("circle.yaml")
    (tmp_path / "folder.yaml").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        here = Path.cwd()
        os.chdir(tmp_path)  # the path of a socket may not be long
        try:
            listener.bind("socket.yaml")
        finally:
            os.chdir(here)
        found = oddities(world(tmp_path, tmp_path / "missing"))
    names = ["circle.yaml", "missing", "nowhere.yaml", "pipe.yaml", "socket.yaml"]
    assert sorted(found) == [("file-unreadable", name, 1) for name in names]


@pytest.mark.skipif(os.geteuid() == 0, reason="everything can be read by root")
def test_a_file_without_access_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").touch(mode=0o000)
    assert oddities(world(tmp_path)) == [("file-unreadable", "a.yaml", 1)]


def test_a_link_back_to_a_folder_around_it_is_told_once(tmp_path: Path) -> None:
    written(tmp_path, CONFIG_MAP, "deploy/a.yaml")
    (tmp_path / "deploy" / "again").symlink_to(tmp_path)
    found = world(tmp_path)
    assert len(found.objects) == 1
    assert oddities(found) == [("file-link-loop", "again", 1)]


def test_a_link_to_a_folder_around_the_linted_one_is_not_followed(tmp_path: Path) -> None:
    written(tmp_path, CONFIG_MAP, "deploy/a.yaml")
    (tmp_path / "deploy" / "everything").symlink_to("/")
    assert oddities(world(tmp_path / "deploy")) == [("file-link-loop", "everything", 1)]


def test_what_is_published_must_be_there(tmp_path: Path) -> None:
    written(tmp_path, CONFIG_MAP, "deploy/a.yaml")
    gone = tmp_path / "gone"
    found = read_world([tmp_path / "deploy"], catalog=catalog(), kubernetes=(1, 34), baseline=[gone])
    assert oddities(found) == [("file-unreadable", "gone", 1)]


def test_a_file_named_twice_is_read_once(tmp_path: Path) -> None:
    written(tmp_path, CONFIG_MAP)
    assert len(world(tmp_path, tmp_path / "a.yaml").objects) == 1


def test_a_file_is_read_whatever_its_name_when_it_is_asked_for(tmp_path: Path) -> None:
    written(tmp_path, CONFIG_MAP, "manifest.txt")
    assert not world(tmp_path).objects
    assert len(world(tmp_path / "manifest.txt").objects) == 1


def test_what_the_folder_says_is_left_out_is_not_looked_at(tmp_path: Path) -> None:
    for name in ("kept.yaml", "samples/bad.yaml", "apps/a/old.yaml", "apps/b/old.yaml", "apps/b/kept.yaml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {Path(name).stem}}}\n")
    (tmp_path / ".lintignore").write_text("# samples of what is wrong\n/samples/\n\napps/*/old.yaml\n")
    assert [Path(found.file).relative_to(tmp_path).as_posix() for found in world(tmp_path).objects] == [
        "apps/b/kept.yaml",
        "kept.yaml",
    ]


@pytest.mark.parametrize("what", ["folder", "binary", "pipe"])
def test_a_file_of_what_is_left_out_that_is_none_leaves_out_nothing(tmp_path: Path, what: str) -> None:
    target = tmp_path / ".lintignore"
    if what == "folder":
        target.mkdir()
    elif what == "binary":
        target.write_bytes(b"\xff\xfe\x00" * 100_000)
    else:
        os.mkfifo(target)
    (tmp_path / "kept.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept}\n")
    assert len(world(tmp_path).objects) == 1
