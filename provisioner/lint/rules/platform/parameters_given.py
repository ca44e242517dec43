"""Parameters that instances, Applications and Stacks give to templates.

A VirtualClusterInstance gives them as a YAML text, everything else as an object. What a template declares is known
only where the template is in the world.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity, nearest_name, unknown_name_hint
from provisioner.lint.joins.nearest import nearest
from provisioner.lint.joins.stacks import every_stack
from provisioner.lint.joins.tenant import deployed_applications, deployed_stacks
from provisioner.lint.rule import Hit, Located, rule
from provisioner.lint.rules.platform._parameters import Given, declared, is_secret_name, read_given, refusal, variables
from provisioner.lint.rules.platform._platform import TEMPLATE_OF, chosen
from provisioner.lint.values import has_hole, items, literal, look
from provisioner.lint.world import World

_TOKENS = re.compile(r"(hf_|sk-|ghp_|github_pat_|glpat-|nvapi-|xox[bp]-|AKIA)[A-Za-z0-9_-]{12,}")
_MAX_SHOWN = 60


@dataclass(frozen=True, slots=True)
class _Giving:
    """One place that gives parameters to a template of a kind."""

    at: Located
    path: FieldPath
    value: Any
    kind: str
    template: str | None
    version: str | None = None

    @property
    def is_text(self) -> bool:
        """Whether the parameters are a YAML text here."""
        return self.kind == "VirtualClusterTemplate"

    def declared_in(self, world: World) -> Mapping[str, Mapping[str, Any]] | None:
        """What the template declares, None where it is not known."""
        template = nearest(world, self.kind, self.template, to=self.at.file)
        if template is None:
            return None
        if self.kind != "VirtualClusterTemplate":
            return variables(declared(template.value, "spec", "parameters"))
        version = chosen(template, self.version)
        return variables(declared(template.value, *version.parameters_path)) if version else None

    def place(self, name: str) -> FieldPath:
        """Where a parameter stands."""
        return self.path if self.is_text else (*self.path, name)


def _givings(world: World) -> Iterator[_Giving]:
    for kind, template in TEMPLATE_OF.items():
        for value in world.of_kind(kind):
            spec = look(value.value, "spec")
            name, version = literal(spec, "templateRef", "name"), literal(spec, "templateRef", "version")
            yield _Giving(value, ("spec", "parameters"), look(spec, "parameters"), template, name, version)
    for tenant in world.tenants:
        for entry in deployed_applications(tenant):
            name, value = literal(entry.value, "template", "name"), look(entry.value, "template", "parameters")
            yield _Giving(tenant, (*entry.path, "template", "parameters"), value, "ArgoCDApplicationTemplate", name)
        for entry in deployed_stacks(tenant):
            name, value = literal(entry.value, "templateRef", "name"), look(entry.value, "parameters")
            yield _Giving(tenant, (*entry.path, "parameters"), value, "StackTemplate", name)
    for stack in every_stack(world):
        for task in stack.tasks:
            name = literal(task.value, "argoCDApplication", "templateRef", "name")
            value = look(task.value, "argoCDApplication", "parameters")
            place: FieldPath = (*task.path, "argoCDApplication", "parameters")
            yield _Giving(stack.at, place, value, "ArgoCDApplicationTemplate", name)


@lru_cache(maxsize=1)
def _known(world: World) -> tuple[tuple[_Giving, Mapping[str, Given], Mapping[str, Mapping[str, Any]]], ...]:
    """Everything given to templates that the world has, as far as it can be read."""
    found = []
    for giving in _givings(world):
        known = giving.declared_in(world)
        given = {} if giving.value is None else read_given(giving.value)
        if known is not None and given is not None:
            found.append((giving, given, known))
    return tuple(found)


@rule("parameters-not-text", Severity.ERROR)
def parameters_not_text(world: World) -> Iterator[Hit]:
    """A tenant cluster's parameters are an object.

    In a VirtualClusterInstance `spec.parameters` is a text that holds YAML (`parameters: |`); the API refuses an
    object there. It is the other way round for Applications and Stacks.
    """
    for instance in world.of_kind("VirtualClusterInstance"):
        found = look(instance.value, "spec", "parameters")
        if isinstance(found, Mapping | list):
            message = "giving parameters: a tenant cluster takes a text of YAML, found an object"
            yield Hit(
                at=instance, path=("spec", "parameters"), message=message, fix="write `parameters: |` before them"
            )


@rule("parameters-not-object", Severity.ERROR)
def parameters_not_object(world: World) -> Iterator[Hit]:
    """Parameters of an Application or Stack are a text.

    ArgoCDApplications, StackInstances, their tasks, and `deploy` in vcluster.yaml take an object. A text
    (`parameters: |`) is what a VirtualClusterInstance takes.
    """
    for giving in _givings(world):
        if not giving.is_text and isinstance(giving.value, str) and giving.value:
            message = "giving parameters: an object is wanted here, found a text"
            yield Hit(at=giving.at, path=giving.path, message=message, fix="remove the `|`, so that they are an object")


@rule("parameters-malformed", Severity.ERROR)
def parameters_malformed(world: World) -> Iterator[Hit]:
    """A tenant cluster's parameters are a text that holds no YAML object.

    The Platform reads the text as one object of variables; anything else is ErrorSyncingParameters.
    """
    for giving in _givings(world):
        found = giving.value if giving.is_text and isinstance(giving.value, str) else ""
        if found.strip() and not has_hole(found) and read_given(found) is None:
            message = "giving parameters: the text is no object of `variable: value`"
            yield Hit(at=giving.at, path=giving.path, message=message, fix="write one `variable: value` a line")


@rule("parameter-missing", Severity.ERROR)
def parameter_missing(world: World) -> Iterator[Hit]:
    """A required parameter is not given.

    The template declares it as required and without a default value, so the instance does not resolve
    (ErrorSyncingParameters).
    """
    for giving, given, known in _known(world):
        for name, parameter in known.items():
            is_needed = look(parameter, "required") is True and not look(parameter, "defaultValue")
            value = given.get(name.partition(".")[0])
            if is_needed and (value is None or value.value in (None, "")):
                message = f"giving parameters: `{giving.template}` requires: `{name}`"
                yield Hit(at=giving.at, path=giving.path, message=message, fix=f"add `{name}`")


@rule("parameter-unknown", Severity.WARNING)
def parameter_unknown(world: World) -> Iterator[Hit]:
    """A parameter is given that the template does not declare.

    Nothing reads it; often its name is misspelt, and the one that was meant keeps its default.
    """
    for giving, given, known in _known(world):
        names = {name.partition(".")[0] for name in known}
        for name in given.keys() - names:
            message = f"giving parameters: `{giving.template}` does not declare: `{name}`"
            near = nearest_name(name, names)
            fix = f"write `{near}`" if near else unknown_name_hint(name, names)
            yield Hit(at=giving.at, path=giving.place(name), message=message, fix=fix)


@rule("parameter-refused", Severity.ERROR)
def parameter_refused(world: World) -> Iterator[Hit]:
    """A parameter is given a value that the template refuses.

    It is none of the options, no number or boolean, outside min and max, or does not match the validation.
    """
    for giving, given, known in _known(world):
        for name, value in given.items():
            text = _text(value)
            parameter = known.get(name)
            if parameter is None or text is None:
                continue
            why = refusal(parameter, text)
            if why:
                message = f"giving parameters: `{name}` {why}: `{text[:_MAX_SHOWN]}`"
                options = ", ".join(str(option) for _, option in items(parameter, "options"))
                fix = f"use one of: {options}" if options else "give a value that the template takes"
                yield Hit(at=giving.at, path=giving.place(name), message=message, fix=fix)


def _text(given: Given) -> str | None:
    """A given value as the template sees it, None where it is not known or no scalar."""
    if given.value is None or isinstance(given.value, Mapping | list) or has_hole(given.value):
        return None
    return str(given.value).lower() if isinstance(given.value, bool) else str(given.value)


@rule("parameter-text-changes", Severity.ERROR)
def parameter_text_changes(world: World) -> Iterator[Hit]:
    """A text is given without quotes and becomes another value.

    `revision: 1.10` is the number 1.1, `build: 007` is 7, `region: no` is false: the template sees that, not what
    was written.
    """
    for giving, given, known in _known(world):
        for name, value in given.items():
            parameter = known.get(name)
            kind = literal(parameter, "type") or "string"
            if parameter is None or value.plain is None or kind not in ("string", "multiline", "password"):
                continue
            seen = _text(value)
            if seen is not None and not isinstance(value.value, str) and seen != value.plain:
                message = f"giving parameters: `{name}` becomes `{seen}`, written: `{value.plain}`"
                yield Hit(
                    at=giving.at, path=giving.place(name), message=message, fix=f'write `{name}: "{value.plain}"`'
                )


@rule("secret-in-parameters", Severity.ERROR)
def secret_in_parameters(world: World) -> Iterator[Hit]:
    """A secret is given as a parameter, in plain text.

    Everybody who may read the instance, the repository or a backup reads it. The value has the form of a known
    token, or its variable is called like one. Rotate it, and take the name of a Secret instead.
    """
    for giving in _givings(world):
        for name, value in (read_given(giving.value) or {}).items():
            text = value.value if isinstance(value.value, str) else ""
            if _TOKENS.search(text) or (is_secret_name(name) and len(text) >= 8 and not has_hole(text)):
                message = f"giving parameters: a secret in plain text: `{name}`"
                yield Hit(
                    at=giving.at,
                    path=giving.place(name),
                    message=message,
                    fix="give the name of a Secret, and rotate this one",
                )
