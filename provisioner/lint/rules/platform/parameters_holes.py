"""Holes in Platform templates: whether something fills them, and whether their place can hold what comes.

The Platform renders with Go templates: `{{ .Values.<variable> }}`, its own values below `.Values.loft`, and in Stacks
`{{ .Outputs.<task>.<name> }}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from provisioner.domain.finding import Severity, nearest_name, unknown_name_hint
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.platform._parameters import asked, declarations, places_of
from provisioner.lint.values import has_hole, items, literal
from provisioner.lint.world import World

_TYPED = frozenset(
    {
        "prune",
        "selfHeal",
        "allowEmpty",
        "limit",
        "factor",
        "revisionHistoryLimit",
        "recurse",
        "skipCrds",
        "passCredentials",
        "skipTests",
        "forceString",
        "ignoreMissingValueFiles",
        "skipSchemaValidation",
        "forceCommonLabels",
        "forceCommonAnnotations",
        "insecureSkipTlsVerify",
        "wait",
        "forwardToken",
    }
)
"""Switches and numbers of Argo CD's and the Platform's own types."""
_NUMBER_FIELDS = "quantity|replicas|weight|port|concurrency|maxSnapshots|period"
_QUOTED_NUMBER = re.compile(rf"^[ \t]*(?:- )?({_NUMBER_FIELDS}):[ \t]*([\"'])\{{\{{[^}}]*\}}\}}\2[ \t]*$", re.MULTILINE)
_BARE = re.compile(
    r"^[ \t]*(?:- )?[A-Za-z0-9_./-]+:[ \t]+\{\{-?\s*\.Values\.([A-Za-z0-9_]+)\s*-?\}\}[ \t]*$", re.MULTILINE
)
_LOFT = (
    *("name", "project", "projectNamespace", "cluster", "clusterAnnotations", "namespace", "space", "user", "team"),
    *("virtualClusterName", "virtualClusterNamespace", "accessKey", "sleepModeAnnotations"),
)
_LOFT_HOLE = re.compile(r"\.Values\.loft\.([A-Za-z]+)")
_BARE_NAME = re.compile(r"\{\{-?\s*(?P<dot>\.?)(?P<name>[A-Za-z_]\w*)(?P<rest>(?:\.\w+)*)\s*(?:\|[^}]*)?-?\}\}")
_WHOLE_HOLE = re.compile(r"\{\{(?:(?!\{\{|\}\}).)*\}\}", re.DOTALL)
_ESCAPED = re.compile(r"""\{\{-?\s*(?:["'`]|/\*)""")
"""Prints braces or is a comment: what stands inside is no hole."""
_ROOTS = frozenset({"Values", "Outputs", "Release", "Chart", "Capabilities", "Template", "Files", "tasks", "inputs"})
_WORDS = frozenset({"end", "else", "break", "continue", "now", "uuidv4", "nil", "true", "false"})


@rule("hole-without-parameter", Severity.ERROR)
def hole_without_parameter(world: World) -> Iterator[Hit]:
    """A hole of a template asks for a parameter that is not declared.

    The Platform renders it as nothing, or as `<no value>`: a name becomes empty, a number null. Only
    `.Values.loft.…` is there by itself.
    """
    for place in declarations(world):
        known = place.known_names
        seen: set[str] = set()
        for path, text in place.texts:
            for name, action in asked(text):
                if not name or name in seen or name in known or name == "loft" or _has_fallback(action):
                    continue
                seen.add(name)
                at, where = places_of(world, place, path, name)
                message = f"filling hole: no parameter is declared for: `.Values.{name}`"
                yield Hit(at=at, path=where, message=message, fix=unknown_name_hint(name, known))


def _has_fallback(action: str) -> bool:
    return re.search(r"\b(default|coalesce|if|with|or|empty|ternary|required|hasKey|dig)\b", action) is not None


@rule("hole-in-typed-field", Severity.ERROR)
def hole_in_typed_field(world: World) -> Iterator[Hit]:
    """A hole stands in a field that holds no text.

    ArgoCDApplicationTemplates and Stacks are typed objects: a switch, a number or a duration takes no `{{ }}`, the
    API refuses the template. Holes go into text fields, such as `helm.values`.
    """
    for place in declarations(world):
        for path, text in place.texts:
            if has_hole(text) and path[-1] in _TYPED and not {"parameters", "values", "valuesObject"} & set(path):
                message = f"filling hole: the field is no text: `{path[-1]}`"
                yield Hit(
                    at=place.owner,
                    path=path,
                    message=message,
                    fix="write the value itself, or move the hole into a text",
                )


@rule("hole-changes-type", Severity.WARNING)
def hole_changes_type(world: World) -> Iterator[Hit]:
    """A text parameter is filled in without quotes.

    `revision: {{ .Values.revision }}` with the value 1.10 becomes the number 1.1, `on` becomes true, and a colon
    breaks the YAML. Quote the hole.
    """
    for place in declarations(world):
        texts = {name for name, parameter in place.variables.items() if _is_free_text(parameter)}
        for path, text in place.yaml_texts:
            for found in _BARE.finditer(text):
                if found[1] in texts:
                    at, where = places_of(world, place, path, found[1])
                    message = f"filling hole: a text without quotes may become a number or worse: `{found[1]}`"
                    fix = f'write `"{{{{ .Values.{found[1]} }}}}"`'
                    yield Hit(at=at, path=where, message=message, fix=fix)
                    texts.discard(found[1])


def _is_free_text(parameter: Mapping[str, Any]) -> bool:
    """Whether the parameter takes texts that YAML may read as something else."""
    if literal(parameter, "type") not in (None, "string", "password", "multiline") or literal(parameter, "validation"):
        return False
    if literal(parameter, "defaultValue") in ("true", "false"):
        return False  # a switch, only declared as a text
    options = [option for _, option in items(parameter, "options")]
    return not options or any(isinstance(option, str) and not option[:1].isalpha() for option in options)


@rule("number-hole-in-quotes", Severity.ERROR)
def number_hole_in_quotes(world: World) -> Iterator[Hit]:
    """A number of a tenant cluster's values is filled in between quotes.

    `quantity: "{{ .Values.nodes }}"` becomes a text, and the chart's schema wants a whole number there.
    """
    for place in declarations(world):
        for path, text in place.yaml_texts:
            if path[-1] != "values" or place.owner.kind != "VirtualClusterTemplate":
                continue
            for found in _QUOTED_NUMBER.finditer(text):
                name = next((name for name, _ in asked(found[0])), "")
                at, where = places_of(world, place, path, name)
                message = f"filling hole: a text where a number is wanted: `{found[1]}`"
                yield Hit(at=at, path=where, message=message, fix="remove the quotes around the hole")


@rule("hole-not-of-values", Severity.ERROR)
def hole_not_of_values(world: World) -> Iterator[Hit]:
    """A hole asks for a name outside `.Values`.

    `{{ model }}`, `{{ Values.model }}`, `{{ .model }}` and `{{ .values.model }}` are how ApplicationSets, Jinja or a
    slip of the hand write it. In a Platform template the first two end the rendering (`function "model" not defined`),
    the others print nothing.
    """
    for place in declarations(world):
        for path, text in place.texts:
            if not has_hole(text) or re.search(r"\{\{-?\s*(range|with|define|template)\b", text):
                continue
            for found in _BARE_NAME.finditer(text):
                name = found["name"]
                if (name in _ROOTS and found["dot"]) or name in _WORDS or "`" in found[0]:
                    continue
                last = (name + found["rest"]).rpartition(".")[2]
                message = f"filling hole: parameters are below `.Values`, found: `{found[0][:60]}`"
                fix = f"write `{{{{ .Values.{last} }}}}`"
                yield Hit(at=place.owner, path=path, message=message, fix=fix)
                break


@rule("hole-not-closed", Severity.ERROR)
def hole_not_closed(world: World) -> Iterator[Hit]:
    """A hole of a template is opened and not closed.

    `{{ .Values.model }` ends the rendering of the whole template (`unexpected "}" in operand`, `unclosed action`):
    the instance stays at `ErrorRenderingTemplate`.
    """
    for place in declarations(world):
        for path, text in place.texts:
            if "{{" not in text or _ESCAPED.search(text):
                continue
            opened = _WHOLE_HOLE.sub("", text)
            if "{{" in opened:
                rest = opened[opened.index("{{") :].splitlines()[0][:60]
                message = f"reading hole: it is not closed with two braces: `{rest}`"
                yield Hit(at=place.owner, path=path, message=message, fix="close it with `}}`")


@rule("hole-of-platform-misspelt", Severity.ERROR)
def hole_of_platform_misspelt(world: World) -> Iterator[Hit]:
    """A hole asks for a value of the Platform by a name that is nearly right.

    Below `.Values.loft` the Platform puts name, project, cluster, virtualClusterName, virtualClusterNamespace,
    user, team and clusterAnnotations; another name prints nothing.
    """
    for place in declarations(world):
        for path, text in place.texts:
            for name in _LOFT_HOLE.findall(text) if has_hole(text) else ():
                meant = nearest_name(name, _LOFT)
                if name not in _LOFT and meant:
                    at, where = places_of(world, place, path, "loft")
                    message = f"filling hole: the Platform has no value: `.Values.loft.{name}`"
                    yield Hit(at=at, path=where, message=message, fix=f"write `.Values.loft.{meant}`")
