"""ValidatingAdmissionPolicies that let everything pass.

Sources: Kubernetes documentation, "Validating Admission Policy", and the validation of admissionregistration.k8s.io.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from provisioner.catalog.fields import shown
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.selectors import NAMESPACE_NAME, namespace_matches, selector
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.security._api_resources import wrong_group
from provisioner.lint.values import has_hole, items, look, mapping, text
from provisioner.lint.world import World

_POLICY, _BINDING = "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"
_TRUE = re.compile(
    r"\(*\s*(true|1 == 1|!false|'' == ''|\"\" == \"\")\s*\)*|.*\|\|\s*true\s*\)*|true\s*\|\|.*", re.DOTALL
)


@rule("admission-policy-unbound", Severity.WARNING)
def admission_policy_unbound(world: World) -> Iterator[Hit]:
    """An admission policy has no binding in the folder; without one it checks nothing.

    A policy says what is right, a ValidatingAdmissionPolicyBinding says where it applies. A folder that keeps
    bindings elsewhere may silence this.
    """
    bound = {text(binding.value, "spec", "policyName") for binding in world.of_kind(_BINDING)}
    for policy in world.of_kind(_POLICY):
        if policy.name and policy.name not in bound:
            message = "binding policy: nothing in the folder binds it, so it checks nothing"
            fix = f"add a {_BINDING} with policyName: {policy.name} and validationActions: [Deny]"
            yield Hit(at=policy, path=("metadata", "name"), message=message, fix=fix)


@rule("admission-binding-without-policy", Severity.ERROR)
def admission_binding_without_policy(world: World) -> Iterator[Hit]:
    """A binding names an admission policy that the folder does not hold, though it holds others.

    A binding may be made before its policy, so nothing complains about a misspelt name: the binding waits, and
    nothing is checked.
    """
    names = [policy.name for policy in world.of_kind(_POLICY)]
    for binding in world.of_kind(_BINDING):
        name = text(binding.value, "spec", "policyName")
        if names and name and name not in names and not has_hole(name):
            near = nearest_name(name, names)
            message = f"binding policy: there is none of that name: {shown(name)}"
            fix = f"did you mean `{near}`?" if near else "add the policy or correct policyName"
            yield Hit(at=binding, path=("spec", "policyName"), message=message, fix=fix)


@rule("admission-binding-without-actions", Severity.ERROR)
def admission_binding_without_actions(world: World) -> Iterator[Hit]:
    """A binding has an empty list of validationActions, or both Deny and Warn; the API server refuses it.

    An empty list is refused as if the field were missing. Deny answers with an error, so a warning with the same
    words is refused beside it.
    """
    for binding in world.of_kind(_BINDING):
        actions = look(binding.value, "spec", "validationActions")
        if actions == []:
            message = "binding policy: no validationActions, so the binding is refused and nothing is checked"
            path = ("spec", "validationActions")
            yield Hit(at=binding, path=path, message=message, fix="set validationActions: [Deny]")
        elif isinstance(actions, list) and "Deny" in actions and "Warn" in actions:
            message = "binding policy: Deny and Warn cannot stand together"
            yield Hit(
                at=binding, path=("spec", "validationActions"), message=message, fix="use [Deny] or [Deny, Audit]"
            )


@rule("admission-binding-never-denies", Severity.WARNING)
def admission_binding_never_denies(world: World) -> Iterator[Hit]:
    """A binding only warns or audits, so what the policy refuses is created all the same.

    Warn and Audit are for the weeks before a policy is enforced: they find who breaks it. Left like that, the
    policy is a line in a log.
    """
    for binding in world.of_kind(_BINDING):
        actions = look(binding.value, "spec", "validationActions")
        if isinstance(actions, list) and actions and {str(action) for action in actions} <= {"Warn", "Audit"}:
            message = f"binding policy: it denies nothing: {shown(', '.join(map(str, actions)))}"
            fix = "add Deny (in the place of Warn) once the workloads comply"
            yield Hit(at=binding, path=("spec", "validationActions"), message=message, fix=fix)


@rule("admission-policy-fails-open", Severity.WARNING)
def admission_policy_fails_open(world: World) -> Iterator[Hit]:
    """An admission policy has failurePolicy Ignore: an expression that fails, or a missing parameter, lets all pass.

    An expression fails on a field that is left out as soon as it is read without `has()`, and an object made to
    fail passes. Fail refuses it instead.
    """
    for policy in world.of_kind(_POLICY):
        if text(policy.value, "spec", "failurePolicy") == "Ignore":
            message = "checking objects: failurePolicy `Ignore` lets everything pass when an expression fails"
            yield Hit(at=policy, path=("spec", "failurePolicy"), message=message, fix="set failurePolicy: Fail")


@rule("admission-policy-matches-nothing", Severity.ERROR)
def admission_policy_matches_nothing(world: World) -> Iterator[Hit]:
    """An admission policy has no resource rules, or one for a resource that its API groups do not have.

    Resources are plural and lower case (`pods`, not `Pod`), Deployments are in `apps`, pods in the core group "".
    """
    for policy in world.of_kind(_POLICY):
        rules = list(items(policy.value, "spec", "matchConstraints", "resourceRules"))
        if mapping(policy.value, "spec") and not rules:
            message = "matching objects: no matchConstraints.resourceRules, so the policy is refused"
            fix = "name apiGroups, apiVersions, operations and resources"
            yield Hit(at=policy, path=("spec",), message=message, fix=fix)
        for path, item in rules:
            groups = [group for _, group in items(item, "apiGroups") if isinstance(group, str)]
            for place, resource in items(item, "resources"):
                why = wrong_group(groups, resource) if isinstance(resource, str) else None
                if why:
                    message = f"matching objects: nothing is matched by {shown(str(resource))}"
                    yield Hit(at=policy, path=(*path, *place), message=message, fix=why)


@rule("admission-policy-always-true", Severity.ERROR)
def admission_policy_always_true(world: World) -> Iterator[Hit]:
    """An admission policy's expression is true whatever the object is, or there is no expression at all.

    Often left over from a trial. `|| true` at the end of a long expression has the same effect.
    """
    for policy in world.of_kind(_POLICY):
        checks = list(items(policy.value, "spec", "validations"))
        if mapping(policy.value, "spec") and not checks and not look(policy.value, "spec", "auditAnnotations"):
            message = "checking objects: the policy has no validations"
            yield Hit(at=policy, path=("spec",), message=message, fix="add an expression that says what is allowed")
        for path, item in checks:
            expression = text(item, "expression")
            if expression is not None and _TRUE.fullmatch(expression.strip()):
                message = f"checking objects: the expression is always true: {shown(expression.strip())}"
                yield Hit(at=policy, path=(*path, "expression"), message=message, fix="say what is allowed")


@rule("admission-policy-conditions-false", Severity.ERROR)
def admission_policy_conditions_false(world: World) -> Iterator[Hit]:
    """An admission policy has a match condition that is always false, so nothing is ever checked.

    All match conditions must hold for an object to be checked. One that never holds turns the policy off.
    """
    for policy in world.of_kind(_POLICY):
        for path, item in items(policy.value, "spec", "matchConditions"):
            if (text(item, "expression") or "").strip() in ("false", "!true"):
                message = "matching objects: the condition is always false, so nothing is checked"
                yield Hit(at=policy, path=(*path, "expression"), message=message, fix="remove the condition")


@rule("admission-params-missing", Severity.ERROR)
def admission_params_missing(world: World) -> Iterator[Hit]:
    """Policy and binding do not agree about parameters.

    A policy with a paramKind needs a binding with a paramRef (without one `params` is null and every expression that
    uses it fails), and a paramRef needs name or selector and parameterNotFoundAction. Of a policy without paramKind the
    paramRef is ignored.
    """
    for binding in world.of_kind(_BINDING):
        policy = world.find(_POLICY, text(binding.value, "spec", "policyName") or "")
        reference = mapping(binding.value, "spec", "paramRef")
        if policy is not None:
            wants = bool(look(policy.value, "spec", "paramKind"))
            if wants and not reference and "params" in repr(look(policy.value, "spec", "validations")):
                message = f"passing parameters: policy {shown(policy.name)} uses params, the binding has no paramRef"
                fix = "add paramRef with name, namespace and parameterNotFoundAction: Deny"
                yield Hit(at=binding, path=("spec",), message=message, fix=fix)
        if reference and "parameterNotFoundAction" not in reference:
            message = "passing parameters: paramRef has no parameterNotFoundAction, so it is refused"
            fix = "set parameterNotFoundAction: Deny"
            yield Hit(at=binding, path=("spec", "paramRef"), message=message, fix=fix)


@rule("admission-params-optional", Severity.WARNING)
def admission_params_optional(world: World) -> Iterator[Hit]:
    """A binding lets everything pass when its parameters are missing: parameterNotFoundAction is Allow.

    Whoever can delete the parameter object can switch the policy off, and a namespace that has none yet is not
    checked.
    """
    for binding in world.of_kind(_BINDING):
        if text(binding.value, "spec", "paramRef", "parameterNotFoundAction") == "Allow":
            message = "passing parameters: everything passes when the parameters are missing"
            path = ("spec", "paramRef", "parameterNotFoundAction")
            yield Hit(at=binding, path=path, message=message, fix="set parameterNotFoundAction: Deny")


@rule("admission-params-to-nothing", Severity.ERROR)
def admission_params_to_nothing(world: World) -> Iterator[Hit]:
    """A binding takes its parameters from an object that is not in the folder, though others of its kind are.

    With parameterNotFoundAction Deny every request is refused, with Allow none is.
    """
    for binding in world.of_kind(_BINDING):
        policy = world.find(_POLICY, text(binding.value, "spec", "policyName") or "")
        kind = text(policy.value, "spec", "paramKind", "kind") if policy else None
        reference = mapping(binding.value, "spec", "paramRef")
        name, namespace = text(reference, "name"), text(reference, "namespace")
        if kind and name and world.has(kind) and world.find(kind, name, namespace=namespace) is None:
            message = f"passing parameters: there is no {kind} {shown(f'{namespace}/{name}' if namespace else name)}"
            fix = "add it, or correct paramRef"
            yield Hit(at=binding, path=("spec", "paramRef", "name"), message=message, fix=fix)


@rule("admission-binding-selects-no-namespace", Severity.WARNING)
def admission_binding_selects_no_namespace(world: World) -> Iterator[Hit]:
    """A binding (or policy) is for namespaces with a label that no namespace of the folder has.

    Namespaces have `kubernetes.io/metadata.name` and what people put on them. A selector for a label that nobody
    sets leaves every tenant unchecked, without any error.
    """
    for found in world.of_kind(_POLICY, _BINDING):
        block = "matchConstraints" if found.kind == _POLICY else "matchResources"
        chosen = selector(look(found.value, "spec", block, "namespaceSelector"))
        if chosen is None or not chosen.keys or NAMESPACE_NAME in chosen.keys:
            continue
        if namespace_matches(world, chosen) is False:
            message = f"choosing namespaces: none of the folder has this label: {shown(str(chosen))}"
            path = ("spec", block, "namespaceSelector")
            yield Hit(
                at=found, path=path, message=message, fix="label the tenants' namespaces, or correct the selector"
            )
