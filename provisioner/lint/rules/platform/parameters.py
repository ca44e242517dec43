"""Parameters that Platform templates declare: their form, their defaults, and whether they are used.

Sources: the Platform's Go type AppParameter (options and default values are texts), its documentation of template
parameters, and the Go template engine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from provisioner.domain.finding import Severity, unknown_name_hint
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.platform._parameters import TYPES, asked, declarations, is_secret_name, refusal
from provisioner.lint.values import has_hole, is_known, items, literal, look, whole
from provisioner.lint.world import World


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
