"""Admission policies, evaluated without a cluster: what an API server that binds them would refuse, and why.

`load_policies` reads the folders of `policies/admission/`, which travel into tenant clusters as they are; plan, lint
and tests ask each Policy what it says to an object. An expression that has no value refuses, as `failurePolicy: Fail`
does. Never decides which tier binds which policy.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from provisioner.admission.policy_expression import EvaluationError, Expression, Request, written_out
from provisioner.admission.policy_match import Match, Subject
from provisioner.catalog.document import Document, read_document
from provisioner.domain.errors import RejectedError
from provisioner.domain.finding import Finding

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
    """One rule: an expression that must be true, and what to say where it is not."""

    expression: Expression
    message: str
    message_expression: Expression | None

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
            return str(self.message_expression.value(request))
        except EvaluationError:
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
        return self._answer(Question.of(obj, operation=operation, old=old, namespace_labels=namespace_labels), params)

    def _answer(self, question: Question, params: Mapping[str, Any] | None) -> tuple[Finding, ...]:
        if not self.match.covers(question.subject, question.namespace_labels):
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
    """The policies of a folder, by name: each subfolder's `policy.yaml`.

    Raises RejectedError for a file that is no such policy, or uses what an offline evaluation does not know.
    """
    return tuple(_policy(read_document(path, root=root)) for path in sorted(root.glob("*/policy.yaml")))


def tree_denials(
    policies: Iterable[Policy], objects: Iterable[Mapping[str, Any]], *, settings: Mapping[str, Any]
) -> Iterator[tuple[Mapping[str, Any], Finding]]:
    """What the policies say to objects that are created together, each with the object it concerns.

    Args:
        policies: the bound policies.
        objects: manifests; Namespaces, NetworkPolicies and ResourceQuotas among them are taken into account.
        settings: the ConfigMap `tenantry-policy`.
    """
    world = tuple(objects)
    there = {(o.get("kind"), _metadata(o).get("namespace"), _metadata(o).get("name")): o for o in world}
    bound = tuple(policies)
    for obj in world:
        namespace = _metadata(obj).get("namespace")
        labels = _metadata(there.get(("Namespace", None, namespace), {})).get("labels") or {}
        question = Question.of(obj, namespace_labels=labels)
        for policy in bound:
            kind = policy.param_kind or "ConfigMap"
            params = settings if kind == "ConfigMap" else there.get((kind, namespace, PARAMETERS[kind]))
            for finding in policy._answer(question, params):
                yield obj, finding


def _policy(document: Document) -> Policy:
    value = document.value
    try:
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
            name=Path(document.file).parent.name,
            refuses=value["metadata"]["annotations"]["tenantry.io/refuses"],
            param_kind=param_kind,
            match=Match.of(spec["matchConstraints"]),
            conditions=tuple(Expression.compiled(c["expression"], {}) for c in spec.get("matchConditions", ())),
            validations=tuple(_validation(entry, variables) for entry in spec["validations"]),
        )
    except KeyError as error:
        raise _refused(document.file, f"field missing: {error.args[0]}") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise _refused(document.file, str(error)) from error


def _validation(entry: Mapping[str, Any], variables: Mapping[str, str]) -> Validation:
    message = entry.get("messageExpression")
    return Validation(
        expression=Expression.compiled(entry["expression"], variables),
        message=entry.get("message", f"failed expression: {entry['expression'].strip()}"),
        message_expression=None if message is None else Expression.compiled(message, variables),
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


def _metadata(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = obj.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}


def _refused(file: str, fact: str) -> RejectedError:
    finding = Finding(reason="PolicyUnreadable", message=f"reading policy: {fact}", file=file)
    return RejectedError(
        f"loading policies: {file}: {fact}",
        reason="PolicyUnreadable",
        hint="write what `docs/how-to/add-a-policy.md` describes",
        findings=(finding,),
    )
