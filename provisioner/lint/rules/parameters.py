"""Parameters that Platform templates declare: their form, their defaults, and the holes that use them.

Sources: the Platform's Go type AppParameter (options and default values are texts), its documentation of template
parameters, and the Go template engine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from provisioner.domain.finding import Severity, unknown_name_hint
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules._parameters import TYPES, asked, declarations, places_of, refusal
from provisioner.lint.rules._tenant import has_hole, literal
from provisioner.lint.values import is_known, items, look, whole
from provisioner.lint.world import World

_SECRET_ENDS = frozenset(
    {
        *(("token",), ("password",), ("passwd",), ("passphrase",), ("credentials",), ("apikey",)),
        *((owner, "key") for owner in ("api", "access", "private", "secret", "license", "signing", "encryption")),
        ("client", "secret"),
        ("webhook", "secret"),
    }
)
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


@rule("parameter-unnamed", Severity.ERROR)
def parameter_unnamed(world: World) -> Iterator[Hit]:
    """A declared parameter has no variable, or one that no hole can name or another parameter has.

    `variable` is the name in `{{ .Values.<variable> }}`: letters, digits and underscores, unique within the version.
    """
    for place in declarations(world):
        seen: set[str] = set()
        for path, parameter in place.parameters:
            name = look(parameter, "variable")
            if has_hole(name):
                continue
            if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.]*", name):
                message = f"declaring parameter: no name for a hole: `{name}`"
                yield Hit(
                    at=place.owner, path=path, message=message, fix="set `variable` to letters, digits, underscores"
                )
            elif name in seen:
                message = f"declaring parameter: two have the name: `{name}`"
                yield Hit(at=place.owner, path=path, message=message, fix="declare it once")
            seen.add(str(name))


@rule("parameter-type-unknown", Severity.ERROR)
def parameter_type_unknown(world: World) -> Iterator[Hit]:
    """A parameter has a type that the Platform does not know.

    Types are string, multiline, boolean, number and password.
    """
    for place in declarations(world):
        for path, parameter in place.parameters:
            found = literal(parameter, "type")
            if found and found not in TYPES:
                words = {
                    "int": "number",
                    "integer": "number",
                    "bool": "boolean",
                    "secret": "password",
                    "text": "string",
                }
                fix = f"use {words[found]}" if found in words else unknown_name_hint(found, TYPES)
                message = f"declaring parameter `{look(parameter, 'variable')}`: unknown type: `{found}`"
                yield Hit(at=place.owner, path=(*path, "type"), message=message, fix=fix)


@rule("parameter-options-not-texts", Severity.ERROR)
def parameter_options_not_texts(world: World) -> Iterator[Hit]:
    """The options of a parameter are objects or numbers.

    `options` is a list of texts. Examples in the vendor's documentation with `{value, description}` do not fit the
    API's type and are refused.
    """
    for place in declarations(world):
        for path, parameter in place.parameters:
            for at, option in items(parameter, "options"):
                if not isinstance(option, str):
                    message = (
                        f"declaring parameter `{look(parameter, 'variable')}`: an option is a text, found: `{option}`"
                    )
                    yield Hit(
                        at=place.owner, path=(*path, *at), message=message[:200], fix='write `options: ["…", "…"]`'
                    )
                    break


@rule("parameter-default-not-text", Severity.ERROR)
def parameter_default_not_text(world: World) -> Iterator[Hit]:
    """The default value of a parameter is a number or a boolean.

    `defaultValue` is a text whatever the parameter's type: `defaultValue: "1"`, `defaultValue: "false"`.
    """
    for place in declarations(world):
        for path, parameter in place.parameters:
            found = look(parameter, "defaultValue")
            if is_known(found) and not isinstance(found, str):
                shown = str(found).lower() if isinstance(found, bool) else str(found)
                message = (
                    f"declaring parameter `{look(parameter, 'variable')}`: its default is a text, found: {shown[:80]}"
                )
                yield Hit(
                    at=place.owner,
                    path=(*path, "defaultValue"),
                    message=message,
                    fix=f'write `defaultValue: "{shown[:80]}"`',
                )


@rule("parameter-default-refused", Severity.ERROR)
def parameter_default_refused(world: World) -> Iterator[Hit]:
    """The default value of a parameter is one that the parameter itself refuses.

    It is not among the options, no number, outside min and max, or does not match `validation`: whoever leaves the
    default gets an error.
    """
    for place in declarations(world):
        for path, parameter in place.parameters:
            found = literal(parameter, "defaultValue")
            why = refusal(parameter, found) if found else None
            if why:
                message = f"declaring parameter `{look(parameter, 'variable')}`: its default {why}: `{found}`"
                yield Hit(
                    at=place.owner, path=(*path, "defaultValue"), message=message, fix="make the default a legal value"
                )


@rule("parameter-bounds-contradict", Severity.ERROR)
def parameter_bounds_contradict(world: World) -> Iterator[Hit]:
    """No value fits a parameter: min is above max, or its validation is no expression.

    `min` and `max` are whole numbers for type number; `validation` is a regular expression.
    """
    for place in declarations(world):
        for path, parameter in place.parameters:
            low, high = whole(parameter, "min"), whole(parameter, "max")
            name = look(parameter, "variable")
            if low is not None and high is not None and low > high:
                message = f"declaring parameter `{name}`: min {low} is above max {high}"
                yield Hit(at=place.owner, path=(*path, "min"), message=message, fix="exchange them")
            pattern = literal(parameter, "validation")
            if pattern and not _is_expression(pattern):
                message = f"declaring parameter `{name}`: not a regular expression: `{pattern}`"
                yield Hit(at=place.owner, path=(*path, "validation"), message=message, fix="correct the expression")


def _is_expression(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        # Go knows some forms that Python does not, such as \z and \pL.
        return re.search(r"\\[pPzQC]|\(\?[a-zA-Z]|\[:", pattern) is not None
    return True


@rule("parameter-unused", Severity.WARNING)
def parameter_unused(world: World) -> Iterator[Hit]:
    """A parameter is declared, and no hole of the template uses it.

    Whoever sets it changes nothing. Often the hole was misspelt, or the value was written down where the hole
    should be.
    """
    for place in declarations(world):
        used = {name for _, text in place.texts for name, _ in asked(text)}
        if "" in used:
            continue  # a template looks all values up by itself
        for path, parameter in place.parameters:
            name = literal(parameter, "variable")
            if name and name.partition(".")[0] not in used:
                message = f"declaring parameter: no hole uses it: `{name}`"
                yield Hit(
                    at=place.owner, path=path, message=message, fix=f"use `{{{{ .Values.{name} }}}}`, or remove it"
                )


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


@rule("secret-as-parameter", Severity.WARNING)
def secret_as_parameter(world: World) -> Iterator[Hit]:
    """A template takes a secret as a parameter.

    Parameters are kept in the instance object in plain text, also those of type password: everybody who may read
    the instance reads them, and so do its rendered template and every backup. Take the name of a Secret instead
    (External Secrets, a ProjectSecret).
    """
    for place in declarations(world):
        for path, parameter in place.parameters:
            name = literal(parameter, "variable") or ""
            if literal(parameter, "type") == "password" or is_secret_name(name):
                message = f"declaring parameter: a secret is readable in every instance: `{name}`"
                yield Hit(at=place.owner, path=path, message=message, fix="take the name of a Secret instead")


def is_secret_name(name: str) -> bool:
    """Whether a parameter is called like a secret itself, not like the name of one."""
    words = tuple(word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+", name))
    return any(words[-length:] in _SECRET_ENDS for length in (1, 2)) or words == ("secret",)
