"""What Argo CD hands to Helm: values as text and as an object, parameters, release names.

`helm.parameters` become `--set`, which guesses types; values are what the YAML says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity
from provisioner.lint.holes import mask
from provisioner.lint.joins.applications import App, Source, applications
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, items, literal, look, mapping, text
from provisioner.lint.world import World
from provisioner.lint.yaml_text import parse_documents

_MAX_RELEASE = 53
_TYPED_BY_SET = re.compile(r"true|false|null|[1-9][0-9]*")
_WANTS_TEXT = re.compile(
    r"(^|[.\]])(tag|imageTag|version|revision|sha|digest|password|token|accountId|projectId|clusterId|zone)$"
    r"|(annotations|labels|nodeSelector|matchLabels)\b.*[.\]]|(^|\.)(env|extraEnv|extraEnvVars)\[[0-9]+\]\.value$",
    re.IGNORECASE,
)
_TEXT_MAPS = re.compile(r"(?i)(annotations|labels|nodeSelector|matchLabels)$")
_VERSIONS = {"tag", "imageTag", "appVersion"}


def _charts(world: World) -> Iterator[tuple[App, Source, Mapping[str, Any]]]:
    for app in applications(world):
        for source in app.sources:
            helm = mapping(source.value, "helm")
            if helm or source.chart:
                yield app, source, helm


@rule("helm-values-twice", Severity.ERROR)
def helm_values_twice(world: World) -> Iterator[Hit]:
    """A source has values as text and as an object, and only the object counts.

    `valuesObject` takes precedence and the text in `values` is not merged into it (user guide, Helm): whatever it sets
    is lost.
    """
    for app, source, helm in _charts(world):
        if helm.get("values") and helm.get("valuesObject"):
            yield Hit(
                at=app.at,
                path=(*source.path, "helm", "values"),
                message=f"reading values of application: `valuesObject` hides `values`: `{app.name}`",
                fix="move everything into `valuesObject`",
            )


@rule("helm-values-as-text", Severity.INFO)
def helm_values_as_text(world: World) -> Iterator[Hit]:
    """The values of a chart are YAML inside of a string.

    No schema, no diff by field and no tool sees what stands in it, and an indentation slip changes its meaning.
    `valuesObject` holds the same as an object (user guide, Helm). A text with `{{ }}` holes must stay a text where the
    object around it is typed, so it is left alone.
    """
    for app, source, helm in _charts(world):
        if literal(helm, "values") and not helm.get("valuesObject"):
            yield Hit(
                at=app.at,
                path=(*source.path, "helm", "values"),
                message=f"reading values of application: they are a text: `{app.name}`",
                fix="write them as `valuesObject`",
            )


@rule("helm-values-no-text", Severity.ERROR)
def helm_values_no_text(world: World) -> Iterator[Hit]:
    """The values of a chart are an object where a text belongs, or the other way round.

    `values` is a string of YAML, `valuesObject` an object; the API server refuses the other.
    """
    for app, source, helm in _charts(world):
        for key, right in (("values", str), ("valuesObject", Mapping)):
            value = helm.get(key)
            if value is not None and not isinstance(value, right):
                other = "valuesObject" if key == "values" else "values"
                yield Hit(
                    at=app.at,
                    path=(*source.path, "helm", key),
                    message=f"reading values of application `{app.name}`: they have the wrong type: `{key}`",
                    fix=f"write `{other}` instead of `{key}`",
                )


@rule("helm-values-malformed", Severity.ERROR)
def helm_values_malformed(world: World) -> Iterator[Hit]:
    """The text of a chart's values is no YAML mapping.

    Helm cannot read it and Argo CD reports ComparisonError. Texts with `{{ }}` are read as they look after filling in.
    """
    for app, source, helm in _charts(world):
        written = text(helm, "values")
        if not written or not written.strip() or has_hole(written):
            continue
        documents = list(parse_documents(written, file=app.at.file))
        is_mapping = len(documents) == 1 and isinstance(documents[0].value, Mapping)
        is_comment = all(not line.strip() or line.strip().startswith("#") for line in written.splitlines())
        if not is_mapping and not is_comment:
            trouble = next((oddity.message for found in documents for oddity in found.oddities), "it is no mapping")
            yield Hit(
                at=app.at,
                path=(*source.path, "helm", "values"),
                message=f"reading values of application `{app.name}`: {trouble}",
                fix="write a mapping as `valuesObject`",
            )


@rule("helm-parameter-no-text", Severity.ERROR)
def helm_parameter_no_text(world: World) -> Iterator[Hit]:
    """A parameter for Helm is a number or a boolean, where a text belongs.

    The API server refuses it, and YAML has changed it already: `1.10` is 1.1, `0644` is 420, `on` is true.
    """
    for app, source, helm in _charts(world):
        for path, item in items(helm, "parameters"):
            value = look(item, "value")
            if value is not None and not isinstance(value, str):
                yield Hit(
                    at=app.at,
                    path=(*source.path, "helm", *path, "value"),
                    message=f"reading parameter `{literal(item, 'name')}`: its value is no text: `{value}`",
                    fix="put the value in quotes, and add `forceString: true` when the chart wants a text",
                )


_UNESCAPED = re.compile(r"(?<!\\)\.(?:[a-z0-9-]+\.)*(?:io|com|org|net|dev|sh|ai|cloud)/")
"""A dot before the last part of a domain, which `--set` takes for the end of a key."""


@rule("helm-parameter-dots-unescaped", Severity.ERROR)
def helm_parameter_dots_unescaped(world: World) -> Iterator[Hit]:
    """The name of a parameter for Helm holds a label with a domain, and its dots are not escaped.

    `helm --set nodeSelector.nvidia.com/gpu.product=…` makes a map `nvidia` with a key `com/gpu`; the chart prints a
    map where a text belongs, and the API server refuses it. A dot inside of a key is written `\\.`.
    """
    for app, source, helm in _charts(world):
        for path, item in items(helm, "parameters"):
            name = literal(item, "name") or ""
            found = re.search(r"^(.*?)([a-z0-9-]+\.(?:[a-z0-9-]+\.)*(?:io|com|org|net|dev|sh|ai|cloud)/.*)$", name)
            if found and _UNESCAPED.search(f".{name}"):
                escaped = f"{found[1]}{found[2].replace('.', chr(92) + '.')}"
                yield Hit(
                    at=app.at,
                    path=(*source.path, "helm", *path, "name"),
                    message=f"handing parameter to Helm: a dot ends a key, also in a label: `{name}`",
                    fix=f"escape the dots of the label, such as `{escaped}`, or write it in `valuesObject`",
                )


@rule("helm-parameter-changes-type", Severity.WARNING)
def helm_parameter_changes_type(world: World) -> Iterator[Hit]:
    """A parameter that the chart wants as a text becomes a number or a boolean.

    Parameters are handed to `helm --set`, which makes numbers and booleans of `"8"`, `"true"` and `"null"`, quotes or
    not. A label, an annotation, an environment variable or a tag must be a text, and a long number is printed as
    `1.2e+07`. `forceString: true` hands it over with `--set-string`.
    """
    for app, source, helm in _charts(world):
        for path, item in items(helm, "parameters"):
            name, value = literal(item, "name") or "", literal(item, "value") or ""
            if not _TYPED_BY_SET.fullmatch(value) or look(item, "forceString") is True:
                continue
            if _WANTS_TEXT.search(name.replace("\\.", "_")):
                yield Hit(
                    at=app.at,
                    path=(*source.path, "helm", *path, "value"),
                    message=f"handing parameter `{name}` to Helm: it becomes a number or a boolean: `{value}`",
                    fix="add `forceString: true`",
                )


@rule("helm-value-changes-type", Severity.WARNING)
def helm_value_changes_type(world: World) -> Iterator[Hit]:
    """A value that ends as a label, an annotation, a selector, a variable or a tag is no text.

    Charts print such maps as they are, and the API server refuses a label `true` or a variable `8`. A tag `1.10`
    without quotes is the number 1.1, and another image. Quotes help.
    """
    for app, source, helm in _charts(world):
        for base, values in _value_trees(app, helm):
            for path, value in _mistyped(values, ()):
                where: FieldPath = (*source.path, "helm", base, *(path if base == "valuesObject" else ()))
                yield Hit(
                    at=app.at,
                    path=where,
                    message=f"reading value `{'.'.join(map(str, path))}`: it is no text: `{str(value).lower()}`",
                    fix="put it in quotes",
                )


def _value_trees(app: App, helm: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if isinstance(helm.get("valuesObject"), Mapping):
        yield "valuesObject", helm["valuesObject"]
    written = text(helm, "values")
    if written:
        masked = mask(written)
        for document in parse_documents(masked.text, file=app.at.file, masked=masked):
            if isinstance(document.value, Mapping):
                yield "values", document.value


def _mistyped(value: Any, path: FieldPath) -> Iterator[tuple[FieldPath, Any]]:
    """The numbers and booleans below a value where a text belongs."""
    if isinstance(value, Mapping):
        is_text_map = any(isinstance(part, str) and _TEXT_MAPS.search(part) for part in path[-2:])
        for key, item in value.items():
            if isinstance(item, bool | int | float):
                is_flag = key in {"enabled", "create"}
                if (is_text_map and not is_flag) or (key in _VERSIONS and isinstance(item, float)):
                    yield (*path, key), item
            else:
                yield from _mistyped(item, (*path, key))
    elif isinstance(value, list):
        for position, item in enumerate(value):
            if (
                isinstance(item, Mapping)
                and item.keys() == {"name", "value"}
                and path
                and "env" in str(path[-1]).lower()
            ):
                if isinstance(item["value"], bool | int | float):
                    yield (*path, position, "value"), item["value"]
            else:
                yield from _mistyped(item, (*path, position))


@rule("helm-release-name-too-long", Severity.ERROR)
def helm_release_name_too_long(world: World) -> Iterator[Hit]:
    """The name of a Helm release is longer than 53 characters.

    Helm refuses it (helm.sh/docs, release names). Without `helm.releaseName` it is the Application's name.
    """
    for app, source, helm in _charts(world):
        given = literal(helm, "releaseName")
        name = given or (literal(app.at.value, *app.outer, "metadata", "name") if source.chart or helm else None)
        if name and len(name) > _MAX_RELEASE:
            yield Hit(
                at=app.at,
                path=(*source.path, "helm", "releaseName") if given else (*app.outer, "metadata", "name"),
                message=f"naming Helm release: {len(name)} characters are more than {_MAX_RELEASE}: `{name}`",
                fix="set a shorter `helm.releaseName`",
            )
