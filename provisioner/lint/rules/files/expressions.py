"""CEL in admission policies, webhooks, device classes and claims: what no API server can compile."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from provisioner.catalog.fields import FieldPath, shown
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.slips import meant
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, items, look, text
from provisioner.lint.world import Object, World

_ADMISSION = ("object", "oldObject", "request", "params", "namespaceObject", "authorizer", "variables")
_DEVICE = ("device",)
_DEVICE_FIELDS = ("driver", "attributes", "capacity", "allowMultipleAllocations")
"""Of the API server's DRA environment."""
_STRINGS = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'")
_POLICIES = ("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy")
_OPTIONAL = re.compile(r"([.\[])\?")
"""How a field is asked for that may be absent, which the compiler here does not know."""
_WEBHOOKS = ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")


def _expressions(world: World) -> Iterator[tuple[Object, FieldPath, str, tuple[str, ...]]]:
    """Every expression: where it stands, what it says, and the names that it may use."""
    for found in world.of_kind(*_POLICIES):
        for field in ("validations", "matchConditions", "variables", "auditAnnotations"):
            for path, item in items(found.value, "spec", field):
                for name in ("expression", "messageExpression", "valueExpression"):
                    yield from _one(found, (*path, name), look(item, name), _ADMISSION)
    for found in world.of_kind(*_WEBHOOKS):
        for base, webhook in items(found.value, "webhooks"):
            for path, item in items(webhook, "matchConditions"):
                yield from _one(found, (*base, *path, "expression"), look(item, "expression"), _ADMISSION)
    for found in world.of_kind("DeviceClass"):
        yield from _selectors(found, ("spec",))
    for kind, spec in (("ResourceClaim", ("spec",)), ("ResourceClaimTemplate", ("spec", "spec"))):
        for found in world.of_kind(kind):
            for path, request in items(found.value, *spec, "devices", "requests"):
                yield from _selectors(found, path)
                yield from _selectors(found, (*path, "exactly"))
                for inner, _ in items(request, "firstAvailable"):
                    yield from _selectors(found, (*path, *inner))


def _selectors(found: Object, base: FieldPath) -> Iterator[tuple[Object, FieldPath, str, tuple[str, ...]]]:
    for path, item in items(found.value, *base, "selectors"):
        yield from _one(found, (*path, "cel", "expression"), look(item, "cel", "expression"), _DEVICE)


def _one(
    found: Object, path: FieldPath, written: Any, names: tuple[str, ...]
) -> Iterator[tuple[Object, FieldPath, str, tuple[str, ...]]]:
    if isinstance(written, str) and not has_hole(written):
        yield found, path, written, names


@lru_cache(maxsize=1024)
def _trouble(written: str, names: tuple[str, ...]) -> str | None:
    """What keeps an expression from being compiled; functions that only API servers have are none."""
    from cel_expr_python import cel

    try:
        cel.NewEnv(variables=dict.fromkeys(names, cel.Type.DYN)).compile(_OPTIONAL.sub(r"\1", written))
    except RuntimeError as error:
        text = str(error)
        if syntax := re.search(r"ERROR: <input>:\d+:\d+: Syntax error: ([^\n]*)", text):
            return syntax[1].partition(" expecting")[0]
        for name in re.findall(r"undeclared reference to '(\w+)[\w.]*'", text):
            if name not in names and not re.search(rf"\b{name}\(", written):
                return f"nothing is called `{name}` here"
            if trouble := _wrong_call(name, written):
                return trouble
    return _unknown_field(written) if names is _DEVICE else None


_MACROS = frozenset(("all", "exists", "exists_one", "filter", "map"))
_METHODS = frozenset(("contains", "endsWith", "matches", "startsWith"))
_FUNCTIONS = (
    *("contains", "endsWith", "startsWith", "matches", "exists", "exists_one", "filter", "lowerAscii", "upperAscii"),
    *("replace", "split", "substring", "indexOf", "lastIndexOf", "isSorted", "isQuantity", "isGreaterThan"),
    *("isLessThan", "compareTo", "isInteger", "asInteger", "findAll", "orValue", "hasValue", "resource", "allowed"),
    *("containsIP", "containsCIDR", "duration", "timestamp", "string", "double", "trim", "join", "size"),
)
"""Functions of CEL and of API servers in which a slip can be told."""


def _wrong_call(name: str, written: str) -> str | None:
    """What is wrong with a call that the compiler does not know: its arguments, or a slip in its name."""
    arguments = re.search(rf"\b{name}\(([^()]*)\)", _STRINGS.sub('""', written))
    if arguments is not None and name in _MACROS and arguments[1].strip() and "," not in arguments[1]:
        return f"`{name}` wants a variable and a condition"
    if arguments is not None and name in _METHODS and (not arguments[1].strip() or "," in arguments[1]):
        return f"`{name}` wants one argument"
    near = meant(name, _FUNCTIONS) if name not in _FUNCTIONS else None
    return f"there is no function `{name}`, only `{near}`" if near else None


def _unknown_field(written: str) -> str | None:
    """The first field of a device that there is not."""
    for name in re.findall(r"(?<![\w.])device\.(\w+)", _STRINGS.sub('""', written)):
        if name not in _DEVICE_FIELDS:
            near = nearest_name(name, _DEVICE_FIELDS)
            return f"a device has no `{name}`" + (f", only `{near}`" if near else "")
    return None


@rule("expression-malformed", Severity.ERROR)
def expression_malformed(world: World) -> Iterator[Hit]:
    """An expression in CEL cannot be compiled.

    The API server refuses the policy, class or claim: a bracket or quote is not closed, or a name is used that there is
    not. Policies see `object`, `oldObject`, `request`, `params`, `namespaceObject`, `authorizer` and `variables`;
    selectors of devices see `device` with its `driver`, `attributes` and `capacity`.
    """
    for found, path, written, names in _expressions(world):
        trouble = _trouble(written, names)
        if trouble is not None:
            message = f"compiling expression: {trouble}: {shown(written)}"
            yield Hit(at=found, path=path, message=message, fix="correct the expression")


_NO_BOOL = re.compile(r"\.(?:size|sum|min|max|map|filter|lowerAscii|upperAscii|join|split|trim)\([^()]*\)\s*$")
_DECIDES = re.compile(r"[=<>!&|?]|\bin\b")


@rule("expression-decides-nothing", Severity.ERROR)
def expression_decides_nothing(world: World) -> Iterator[Hit]:
    """A validation or a condition of a policy gives a number, a text or a list, not true or false.

    The API server refuses the policy: `must evaluate to bool`.
    """
    for found in world.of_kind(*_POLICIES):
        for field in ("validations", "matchConditions"):
            for path, item in items(found.value, "spec", field):
                written = text(item, "expression")
                bare = _STRINGS.sub('""', written or "").strip()
                if written and not has_hole(written) and _NO_BOOL.search(bare) and not _DECIDES.search(bare):
                    message = f"compiling expression: it gives no true or false: {shown(written)}"
                    place = (*path, "expression")
                    yield Hit(at=found, path=place, message=message, fix="compare it with something")


_VARIABLE = re.compile(r"(?<![\w.])variables\.\??(\w+)")


@rule("expression-variable-unknown", Severity.ERROR)
def expression_variable_unknown(world: World) -> Iterator[Hit]:
    """An expression of a policy reads a variable that the policy does not define.

    The API server refuses the policy: `undefined field`. Variables are defined under `spec.variables`, and each sees
    those before it.
    """
    for found, path, written, names in _expressions(world):
        known = {text(item, "name") for _, item in items(found.value, "spec", "variables")}
        if names is not _ADMISSION or found.kind not in _POLICIES or None in known:
            continue
        for name in dict.fromkeys(_VARIABLE.findall(_STRINGS.sub('""', written))):
            if name not in known:
                near = nearest_name(name, sorted(one for one in known if one))
                message = f"compiling expression: the policy defines no variable `{name}`"
                fix = f"did you mean {near}?" if near else "define it under spec.variables"
                yield Hit(at=found, path=path, message=message, fix=fix)


@rule("device-count-refused", Severity.ERROR)
def device_count_refused(world: World) -> Iterator[Hit]:
    """A claim asks for a number of devices that the API server refuses.

    With `allocationMode: ExactCount`, the default, `count` is 1 or more; with `All` there is none.
    """
    for kind, spec in (("ResourceClaim", ("spec",)), ("ResourceClaimTemplate", ("spec", "spec"))):
        for found in world.of_kind(kind):
            for path, request in items(found.value, *spec, "devices", "requests"):
                for inner in ((), ("exactly",)):
                    count, mode = look(request, *inner, "count"), look(request, *inner, "allocationMode")
                    if isinstance(count, int) and (count < 1 or mode == "All"):
                        message = f"claiming devices: {mode or 'ExactCount'} and a count of `{count}`"
                        fix = "leave count out" if mode == "All" else "ask for 1 or more"
                        yield Hit(at=found, path=(*path, *inner, "count"), message=message, fix=fix)
