"""Parameters of Platform templates: what is declared, what is given, and where holes ask for them.

Instances give parameters as a YAML text, Applications and Stacks as an object. The Platform renders with Go templates,
`{{ .Values.<variable> }}`. No rules stand here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import yaml

from provisioner.catalog.fields import FieldPath
from provisioner.lint.joins.tenant import walk
from provisioner.lint.rule import Located
from provisioner.lint.rules.platform._platform import versions_of
from provisioner.lint.scalars import read_plain
from provisioner.lint.values import has_hole, items, literal, look, whole
from provisioner.lint.world import Object, World

TYPES = ("string", "multiline", "boolean", "number", "password")
_ACTION = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_VARIABLE = re.compile(r"\.Values\.([A-Za-z_][A-Za-z0-9_]*)")
_WHOLE = re.compile(r"\.Values(?![A-Za-z0-9_.])")
_SIMPLE = re.compile(r"\{\{-?\s*\.Values\.([A-Za-z_][A-Za-z0-9_]*)\s*(\|\s*(quote|toString)\s*)*-?\}\}")
_MAX_TEXT = 100_000
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Given:
    """One value that was given: the value as a client reads it, and the text where it stands unquoted."""

    value: Any
    plain: str | None = None


def declared(value: Any, *path: str | int) -> list[tuple[FieldPath, Mapping[str, Any]]]:
    """The parameters that are declared at a path, each with its own."""
    return [(at, item) for at, item in items(value, *path) if isinstance(item, Mapping)]


def variables(parameters: list[tuple[FieldPath, Mapping[str, Any]]]) -> dict[str, Mapping[str, Any]]:
    """The declared parameters by variable."""
    found = {literal(item, "variable"): item for _, item in parameters}
    return {name: item for name, item in found.items() if name}


def asked(text: Any) -> Iterator[tuple[str, str]]:
    """Every variable that the holes of a text ask for, with the hole; no name where one takes all values at once."""
    if has_hole(text):
        for action in _ACTION.findall(text):
            if "`" in action:
                continue  # prints another engine's hole
            if _WHOLE.search(action):
                yield "", action
            for name in _VARIABLE.findall(action):
                yield name, action


def given(instance: Object) -> Mapping[str, Given]:
    """The parameters of a VirtualClusterInstance, as far as they can be read."""
    return read_given(look(instance.value, "spec", "parameters")) or {}


def read_given(found: Any) -> Mapping[str, Given] | None:
    """Given parameters from a YAML text or an object, None where it is neither; a hole in them is no value."""
    if isinstance(found, Mapping):
        return {str(key): Given(item) for key, item in found.items()}
    if not isinstance(found, str):
        return None
    return None if has_hole(found) or len(found) > _MAX_TEXT else _read_text(found)


def _read_text(found: str) -> Mapping[str, Given] | None:
    try:
        node = yaml.compose(found, Loader=_LOADER)
    except (yaml.YAMLError, RecursionError):
        return None
    if node is None:
        return {}
    if not isinstance(node, yaml.MappingNode):
        return None
    read: dict[str, Given] = {}
    for key, item in node.value:
        if isinstance(item, yaml.ScalarNode):
            is_plain = not item.style  # None or empty, by loader
            value = read_plain(item.value).value if is_plain else item.value
            read[str(key.value)] = Given(value, item.value if is_plain else None)
        else:
            read[str(key.value)] = Given({} if isinstance(item, yaml.MappingNode) else [])
    return read


def filled(value: Mapping[str, Any], parameters: Mapping[str, Given]) -> Mapping[str, Any]:
    """A mapping with its simple holes filled in; what is not given stays a hole."""
    found = _fill(value, parameters) if parameters else value
    return found if isinstance(found, Mapping) else value


def _fill(value: Any, parameters: Mapping[str, Given]) -> Any:
    if isinstance(value, Mapping):
        return {key: _fill(item, parameters) for key, item in value.items()}
    if isinstance(value, list):
        return [_fill(item, parameters) for item in value]
    if not has_hole(value):
        return value
    return _SIMPLE.sub(lambda found: _shown(parameters.get(found[1]), found[0]), value)


def _shown(found: Given | None, hole: str) -> str:
    if found is None or isinstance(found.value, Mapping | list) or found.value is None:
        return hole
    return str(found.value).lower() if isinstance(found.value, bool) else str(found.value)


@dataclass(frozen=True, eq=False)
class Declared:
    """One place where parameters are declared, and the template that they are for."""

    owner: Object
    parameters: list[tuple[FieldPath, Mapping[str, Any]]]
    template_path: FieldPath

    @cached_property
    def variables(self) -> dict[str, Mapping[str, Any]]:
        """Parameters by variable."""
        return variables(self.parameters)

    @cached_property
    def known_names(self) -> set[str]:
        """What holes may ask for: its own parameters, and those of Apps that stand inside of it."""
        inner = (look(value, "variable") for _, value in walk(look(self.owner.value, *self.template_path)))
        names = [look(parameter, "variable") for _, parameter in self.parameters]
        return {name.partition(".")[0] for name in (*names, *inner) if isinstance(name, str)}

    @cached_property
    def texts(self) -> list[tuple[FieldPath, Any]]:
        """Every text of the template with its path in the owner; keys count as texts of what they hold."""
        found: list[tuple[FieldPath, Any]] = []
        for path, value in walk(look(self.owner.value, *self.template_path), self.template_path):
            if path[len(self.template_path) : len(self.template_path) + 1] == ("parameters",):
                continue
            if isinstance(value, str):
                found.append((path, value))
            elif isinstance(value, Mapping):
                found.extend(((*path, key), key) for key in value if has_hole(key))
        return found

    @property
    def yaml_texts(self) -> list[tuple[FieldPath, str]]:
        """The texts that are YAML once their holes are filled."""
        return [(path, str(text)) for path, text in self.texts if has_hole(text) and "\n" in text]


@lru_cache(maxsize=1)
def declarations(world: World) -> tuple[Declared, ...]:
    """Every place of a world where Platform templates declare parameters, also where they declare none."""
    found = [
        Declared(template, declared(template.value, *version.parameters_path), version.path)
        for template in world.of_kind("VirtualClusterTemplate")
        for version in versions_of(template)
    ]
    found.extend(
        Declared(template, declared(template.value, "spec", "parameters"), ("spec",))
        for template in world.of_kind("ArgoCDApplicationTemplate", "StackTemplate")
    )
    for instance in world.of_kind("StackInstance"):
        if look(instance.value, "spec", "template"):
            path: FieldPath = ("spec", "template")
            found.append(Declared(instance, declared(instance.value, *path, "parameters"), path))
    return tuple(found)


def places_of(world: World, place: Declared, path: FieldPath, name: str) -> tuple[Located, FieldPath]:
    """Where a hole stands: in the tenant cluster's values that the text is, or the text's field in the owner."""
    for tenant in world.tenants:
        if tenant.template is place.owner and tenant.path == path:
            for at, value in walk(tenant.value):
                keys = value.keys() if isinstance(value, Mapping) else (value,)
                if any(name == found for key in keys for found, _ in asked(key)):
                    return tenant, at
    return place.owner, path


def refusal(parameter: Mapping[str, Any], value: str) -> str | None:
    """Why a parameter refuses a value, None where it takes it or that is not known."""
    kind = literal(parameter, "type")
    options = [option for _, option in items(parameter, "options") if isinstance(option, str)]
    if options and value not in options:
        return "is none of its options"
    if kind == "boolean" and value not in ("true", "false"):
        return "is not true or false"
    if kind == "number":
        return _outside(parameter, value)
    pattern = literal(parameter, "validation")
    return "does not match its validation" if pattern and not _may_match(pattern, value) else None


def _outside(parameter: Mapping[str, Any], value: str) -> str | None:
    try:
        number = float(value)
    except ValueError:
        return "is not a number"
    low, high = whole(parameter, "min"), whole(parameter, "max")
    if low is not None and number < low:
        return f"is below its min {low}"
    return f"is above its max {high}" if high is not None and number > high else None


def _may_match(pattern: str, value: str) -> bool:
    """Whether a value matches; true where the expression is too costly to try or only Go can read it."""
    is_nested = re.search(r"[+*}]\)*[+*{]", pattern) is not None
    if is_nested or len(pattern) > 300 or len(value) > 500:
        return True
    try:
        return re.search(pattern, value) is not None
    except (re.error, OverflowError, RecursionError):
        return True


_SECRET_ENDS = frozenset(
    {
        *(("token",), ("password",), ("passwd",), ("passphrase",), ("credentials",), ("apikey",)),
        *((owner, "key") for owner in ("api", "access", "private", "secret", "license", "signing", "encryption")),
        ("client", "secret"),
        ("webhook", "secret"),
    }
)


def is_secret_name(name: str) -> bool:
    """Whether a parameter is called like a secret itself, not like the name of one."""
    words = tuple(word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+", name))
    return any(words[-length:] in _SECRET_ENDS for length in (1, 2))
