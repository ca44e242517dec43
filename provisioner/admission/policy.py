"""Admission policies, evaluated without a cluster: what an API server that binds them would refuse, and why.

`load_policy` reads a folder of `policies/admission/`, which travels into tenant clusters as it is; `manifests` asks
each Policy what it says to an object. An expression that has no value refuses, as `failurePolicy: Fail` does. Never
decides which tier binds which policy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from provisioner.admission.policy_expression import EvaluationError, Expression, Request, written_out
from provisioner.admission.policy_match import Match, Subject
from provisioner.domain.errors import RejectedError
from provisioner.domain.finding import Finding
from provisioner.rendering.reading import read_text

PARAMETERS = MappingProxyType(
    {"ConfigMap": "tenantry-policy", "NetworkPolicy": "default-deny", "ResourceQuota": "tenant-quota"}
)
"""The object that a policy reads beside the request, by the kind it names: as `_binding.yaml.j2` binds it.

The ConfigMap is the installation's; the others lie in the namespace of the request.
"""

_FIELD = r"[\w.\[\]/-]+"
_MESSAGE = re.compile(rf"^(?P<fields>{_FIELD}(?:, {_FIELD})*): (?P<message>.+?)(?:; (?P<hint>.+))?$", re.DOTALL)
_NO_LABELS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Validation:
    """One rule: an expression that must be true, and what to say where it is not: a text, or what another expression
    gives, which is compiled when it is needed: most objects are refused by nobody."""

    expression: Expression
    message: str
    message_expression: str | None

    def refusal(self, request: Request) -> str | None:
        """Why the request is refused, or None."""
        try:
            if self.expression.value(request) is True:
                return None
        except EvaluationError as error:
            return f"the rule cannot be read for this object: {error}"
        if self.message_expression is None:
            return self.message
        try:
            return str(Expression.compiled(self.message_expression).value(request))
        except (EvaluationError, ValueError):
            return self.message


@dataclass(frozen=True, slots=True)
class Question:
    """One request, as every policy is asked about it; what the evaluator makes of it is kept for the next policy."""

    subject: Subject
    obj: Mapping[str, Any]
    old: Mapping[str, Any] | None
    namespace_labels: Mapping[str, str]
    requests: dict[int, Request]

    @classmethod
    def of(
        cls,
        obj: Mapping[str, Any],
        *,
        operation: str = "CREATE",
        old: Mapping[str, Any] | None = None,
        namespace_labels: Mapping[str, str] = _NO_LABELS,
    ) -> Question:
        """The question about an object; arguments as of `Policy.denials`."""
        return cls(Subject.of(obj, operation), obj, old, namespace_labels, {})

    def request(self, params: Mapping[str, Any] | None) -> Request:
        """What expressions see, with this parameter. Raises EvaluationError for what CEL cannot hold."""
        if id(params) not in self.requests:
            names = self.subject.names(self.obj, old=self.old, params=params, namespace_labels=self.namespace_labels)
            self.requests[id(params)] = Request.of(names)
        return self.requests[id(params)]


@dataclass(frozen=True, slots=True)
class Policy:
    """One policy. `refuses` says in words what it refuses; `param_kind` names the kind of its parameter, if any."""

    name: str
    refuses: str
    param_kind: str | None
    match: Match
    conditions: tuple[Expression, ...]
    validations: tuple[Validation, ...]

    def denials(
        self,
        obj: Mapping[str, Any],
        *,
        params: Mapping[str, Any] | None,
        operation: str = "CREATE",
        old: Mapping[str, Any] | None = None,
        namespace_labels: Mapping[str, str] = _NO_LABELS,
    ) -> tuple[Finding, ...]:
        """Why the policy refuses an object; empty where it does not, or has no say.

        Args:
            obj: the object as it is to be; for DELETE the object that goes.
            params: the object of kind `param_kind`; None says that there is none, which refuses.
            operation: CREATE, UPDATE or DELETE.
            old: what stands, for UPDATE.
            namespace_labels: labels of the object's namespace; its name need not be among them.
        """
        return self.answer(Question.of(obj, operation=operation, old=old, namespace_labels=namespace_labels), params)

    def has_say(self, question: Question) -> bool:
        """Whether an API server would ask the policy at all."""
        return self.match.covers(question.subject, question.namespace_labels)

    def answer(self, question: Question, params: Mapping[str, Any] | None) -> tuple[Finding, ...]:
        """Why the policy refuses what is asked for, as `denials`."""
        if not self.has_say(question):
            return ()
        if self.param_kind is not None and params is None:
            return tuple(_findings(f"metadata.namespace: there is no {self.param_kind} {PARAMETERS[self.param_kind]}"))
        try:
            request = question.request(params)
            if not self._concerns(request):
                return ()
        except EvaluationError as error:
            return (_finding(f"the policy cannot be asked about this object: {error}"),)
        refusals = (validation.refusal(request) for validation in self.validations)
        return tuple(finding for text in refusals if text is not None for finding in _findings(text))

    def _concerns(self, request: Request) -> bool:
        """Whether every match condition holds. One that does not outweighs one that has no value, as in a cluster."""
        trouble: EvaluationError | None = None
        for condition in self.conditions:
            try:
                if condition.value(request) is not True:
                    return False
            except EvaluationError as error:
                trouble = error
        if trouble is not None:
            raise trouble
        return True


def load_policies(root: Path) -> tuple[Policy, ...]:
    """The policies of a folder, by name: each subfolder's `policy.yaml`. Raises as `load_policy`."""
    return tuple(map(load_policy, sorted(root.glob("*/policy.yaml"))))


def load_policy(path: Path) -> Policy:
    """The policy in a file, named by its folder.

    Raises RejectedError for a file that is no such policy, or uses what an offline evaluation does not know.
    """
    name, file = path.parent.name, f"{path.parent.name}/{path.name}"
    try:
        [value] = read_text(path.read_text(encoding="utf-8"), file=file)
        return _policy(name, value)
    except KeyError as error:
        raise _refused(file, f"field missing: {error.args[0]}") from error
    except (OSError, TypeError, ValueError, AttributeError) as error:
        raise _refused(file, str(error)) from error


def _policy(name: str, value: Any) -> Policy:
    spec = value["spec"]
    if value["kind"] != "ValidatingAdmissionPolicy" or spec["failurePolicy"] != "Fail":
        raise ValueError("not a ValidatingAdmissionPolicy that fails closed")
    variables: dict[str, str] = {}
    for variable in spec.get("variables", ()):
        variables[variable["name"]] = written_out(variable["expression"], variables)
    param_kind = spec["paramKind"]["kind"] if "paramKind" in spec else None
    if param_kind is not None and param_kind not in PARAMETERS:
        raise ValueError(f"parameters of an unknown kind: {param_kind}")
    return Policy(
        name=name,
        refuses=value["metadata"]["annotations"]["tenantry.io/refuses"],
        param_kind=param_kind,
        match=Match.of(spec["matchConstraints"]),
        conditions=tuple(
            Expression.compiled(written_out(c["expression"], {})) for c in spec.get("matchConditions", ())
        ),
        validations=tuple(_validation(entry, variables) for entry in spec["validations"]),
    )


def _validation(entry: Mapping[str, Any], variables: Mapping[str, str]) -> Validation:
    message = entry.get("messageExpression")
    return Validation(
        expression=Expression.compiled(written_out(entry["expression"], variables)),
        message=entry.get("message", f"failed expression: {entry['expression'].strip()}"),
        message_expression=None if message is None else written_out(message, variables),
    )


def _findings(text: str) -> Iterator[Finding]:
    """One finding for each field that a message names: `<field>, <field>: <what is wrong>; <what to do>`."""
    parts = _MESSAGE.match(text)
    if parts is None:
        yield _finding(text)
        return
    for field in parts["fields"].split(", "):
        yield Finding(reason="PolicyDenied", field=field, message=parts["message"], hint=parts["hint"])


def _finding(text: str) -> Finding:
    return Finding(reason="PolicyDenied", message=text)


def _refused(file: str, fact: str) -> RejectedError:
    finding = Finding(reason="PolicyUnreadable", message=f"reading policy: {fact}", file=file)
    return RejectedError(
        f"loading policies: {file}: {fact}",
        reason="PolicyUnreadable",
        hint="write what `docs/how-to/add-a-policy.md` describes",
        findings=(finding,),
    )
