"""The pages of `docs/rules`: an index by field of knowledge, and a page for every rule from its docstring and samples.

`tools/reference.py` writes or compares them.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from provisioner.lint import rules as package
from provisioner.lint.rule import Rule

SAMPLES = Path(__file__).resolve().parents[1] / "tests" / "lint" / "rules"
LONGEST = 60
"""Lines of a sample that a page shows."""


def rule_pages() -> dict[str, str]:
    """Every page by its file name."""
    fields = dict(_fields())
    pages = {"README.md": _index(fields)}
    for rules in fields.values():
        pages |= {f"{rule.id}.md": _page(rule) for rule in rules}
    return pages


def _fields() -> Iterator[tuple[str, Sequence[Rule]]]:
    """What each module is about, in its own words, and its rules."""
    for found in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{found.name}")
        rules = [
            value
            for value in vars(module).values()
            if isinstance(value, Rule) and value.check.__module__ == module.__name__
        ]
        if rules:
            title = (module.__doc__ or found.name).partition("\n")[0].rstrip(".")
            yield title, sorted(rules, key=lambda rule: rule.id)


def _index(fields: dict[str, Sequence[Rule]]) -> str:
    count = sum(len(rules) for rules in fields.values())
    lines = [
        "# Rules",
        "",
        f"What `tenantry lint` knows: {count} rules. What is an error does not work, is refused, or loses data or",
        "isolation; a warning bites under usual conditions; information is worth knowing.",
        "",
    ]
    for title, rules in fields.items():
        lines += [f"## {title}", "", "| rule | severity | what is wrong |", "|---|---|---|"]
        lines += [f"| [`{rule.id}`]({rule.id}.md) | {rule.severity.value} | {_cell(rule.summary)} |" for rule in rules]
        lines.append("")
    return "\n".join(lines)


def _page(rule: Rule) -> str:
    lines = [f"# {rule.id}", "", f"**{rule.severity.value}**: {rule.summary}", "", rule.explanation, ""]
    for kind, title in (("bad", "Found in"), ("good", "Right")):
        for name, text in _sample(rule.id, kind):
            lines += [f"## {title}", "", f"`{name}`", "", "```yaml", text, "```", ""]
    lines += [
        "## Silence it",
        "",
        "Where it is meant that way, say why on the object:",
        "",
        "```yaml",
        "metadata:",
        "  annotations:",
        f'    lint.tenantry.io/ignore: "{rule.id}: <reason>"',
        "```",
        "",
    ]
    return "\n".join(lines)


def _sample(rule: str, kind: str) -> Iterator[tuple[str, str]]:
    """The first file of a rule's sample that is text and short enough to be read."""
    folders = sorted((SAMPLES / rule).glob(f"{kind}*"))
    for file in sorted(path for folder in folders[:1] for path in folder.rglob("*") if path.is_file()):
        try:
            text = file.read_text().rstrip()
        except UnicodeDecodeError:
            continue
        if text.count("\n") < LONGEST and all(len(line) < 200 for line in text.split("\n")):
            yield file.relative_to(folders[0]).as_posix(), text
            return


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
