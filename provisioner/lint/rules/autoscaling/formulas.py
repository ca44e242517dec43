"""What KEDA's triggers need beside themselves: a formula over them, and how they sign in.

Sources: KEDA's documentation, "Scaling Modifiers" and "Prometheus scaler" (authentication parameters).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.scaling import scalers
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, items, literal, look, mapping, text
from provisioner.lint.world import Object, World

_FORMULA = ("spec", "advanced", "scalingModifiers", "formula")
_WORDS = frozenset(
    [
        *("and", "or", "not", "in", "matches", "contains", "startsWith", "endsWith"),
        *("true", "false", "nil", "let", "if", "else"),
    ]
)
_LITERAL = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'")
_VARIABLE = re.compile(r"(?<![\w.#])([A-Za-z_]\w*)(?!\s*\(|\w)")
_NEEDED: Mapping[str, tuple[str, ...]] = {
    "bearer": ("bearerToken",),
    "basic": ("username",),
    "tls": ("cert", "key"),
    "custom": ("customAuthHeader", "customAuthValue"),
    "apiKey": ("apiKey",),
}
"""What each authMode of a trigger reads from its TriggerAuthentication."""
_ASKING = ("prometheus", "metrics-api", "graphite", "loki")


@rule("scaler-formula-unknown-trigger", Severity.ERROR)
def scaler_formula_unknown_trigger(world: World) -> Iterator[Hit]:
    """The formula of a ScaledObject speaks of a trigger that it does not have.

    A formula knows triggers by their `name`, and only those that have one. KEDA's webhook refuses the ScaledObject, or
    its HorizontalPodAutoscaler never gets the metric.
    """
    for scaler in scalers(world):
        formula = literal(scaler.at.value, *_FORMULA) if scaler.is_keda else None
        names = [text(item, "name") for _, item in scaler.triggers()] if formula else []
        if formula is None or any(has_hole(name) for name in names):
            continue
        known = [name for name in names if name]
        for name in dict.fromkeys(_VARIABLE.findall(_LITERAL.sub("", formula))):
            if name not in known and name not in _WORDS and not re.search(rf"\blet\s+{name}\b", formula):
                near = nearest_name(name, known)
                message = f"scaling {scaler.name}: the formula speaks of no trigger here: `{name}`"
                fix = f"did you mean {near}?" if near else f"there are: {', '.join(known) or 'none with a name'}"
                yield Hit(at=scaler.at, path=_FORMULA, message=message, fix=fix)


@rule("scaler-authentication-lacks-parameter", Severity.ERROR)
def scaler_authentication_lacks_parameter(world: World) -> Iterator[Hit]:
    """A trigger signs in one way, and its TriggerAuthentication gives what another way needs.

    authModes bearer reads `bearerToken`, basic `username` and `password`, tls `cert` and `key`. KEDA cannot make the
    scaler: `no bearer token provided`, and the workload stays as it is.
    """
    for scaler in scalers(world):
        for path, item in scaler.triggers() if scaler.is_keda else ():
            reference = mapping(item, "authenticationRef")
            kind = literal(reference, "kind") or "TriggerAuthentication"
            space = scaler.at.namespace if kind == "TriggerAuthentication" else None
            found = world.find(kind, literal(reference, "name") or "", namespace=space)
            modes = (literal(item, "metadata", "authModes") or "").split(",")
            given = _given(found) if found and item.get("type") in _ASKING else None
            for mode in modes if given is not None else ():
                for name in _NEEDED.get(mode.strip(), ()):
                    if name not in (given or ()) and look(item, "metadata", f"{name}FromEnv") is None:
                        message = (
                            f"scaling {scaler.name}: {_name(found)} does not give what {mode.strip()} needs: `{name}`"
                        )
                        fix = f"add parameter {name} to {_name(found)}, or write the mode that it is for"
                        yield Hit(at=scaler.at, path=(*path, "metadata", "authModes"), message=message, fix=fix)


def _name(found: Object | None) -> str:
    return found.name if found else ""


def _given(found: Object) -> set[Any] | None:
    """The parameters that a TriggerAuthentication gives; None where something else brings them."""
    spec = mapping(found.value, "spec")
    if any(key not in ("secretTargetRef", "env", "configMapTargetRef") for key in spec):
        return None
    return {literal(item, "parameter") for part in spec for _, item in items(spec, part)}
