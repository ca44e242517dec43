"""What a customer is shown: the endpoint that was bought, in the customer's words. Pure.

Stages are told as five instead of nine, reasons are those of the tables below and nothing else, and no message of a
cluster, of Argo CD or of an engine goes through: they name what stands behind an endpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from provisioner.domain.conditions import StageName, StageState, current_stage
from provisioner.domain.endpoint import Endpoint, Phase
from provisioner.domain.errors import RejectedError
from provisioner.domain.finding import Finding
from provisioner.wire.endpoint import CustomerEndpointView, CustomerErrorView

_STAGES: Mapping[StageName, str] = {
    StageName.PROJECT: "preparing",
    StageName.DELIVERY: "preparing",
    StageName.PLACEMENT: "preparing",
    StageName.TENANT_CLUSTER: "preparing",
    StageName.ARGO_SYNC: "preparing",
    StageName.CAPACITY: "capacity",
    StageName.ROUTE: "connecting",
    StageName.LOADING: "loading",
    StageName.PUBLISHED: "checking",
}
_GOES_ON: Mapping[str, tuple[str, str]] = {
    "preparing": ("Preparing", "the endpoint is being prepared"),
    "capacity": ("WaitingForCapacity", "waiting for GPUs to be free"),
    "connecting": ("Connecting", "the endpoint's address is being connected"),
    "loading": ("LoadingModel", "the model is being loaded"),
    "checking": ("Checking", "the endpoint is being checked from outside"),
}
_STUCK: Mapping[str, tuple[str, str]] = {
    "preparing": ("PreparationDelayed", "preparing the endpoint meets an obstacle; it is tried again"),
    "capacity": ("CapacityDelayed", "no GPUs could be had yet; it is tried again"),
    "connecting": ("ConnectionDelayed", "the endpoint's address could not be connected yet; it is tried again"),
    "loading": ("ModelDelayed", "the model could not be loaded yet; it is tried again"),
    "checking": ("CheckDelayed", "the endpoint did not answer as it should yet; it is asked again"),
}
_LOADING: Mapping[str, str] = {
    "PullingImage": "the model server is being fetched",
    "DownloadingModel": "the model is being downloaded",
    "LoadingModel": "the model is being loaded",
}
_ENDED: Mapping[str, tuple[str, str]] = {
    "QuotaExceeded": ("QuotaExceeded", "the endpoint would exceed the quota; ask your provider for more"),
    "DeadlineExceeded": ("TookTooLong", "the endpoint did not become ready in time; ask your provider"),
    "Cancelled": ("Cancelled", "making the endpoint was cancelled"),
}
_FAILED = ("Failed", "the endpoint could not be made; ask your provider, naming its id")
_TOLD_AS_THEY_ARE = frozenset(
    {"InvalidValue", "MinAboveMax", "MissingField", "NameTaken", "NameTooLong", "TooManyReplicas", "WrongType"}
)


def customer_view(endpoint: Endpoint) -> CustomerEndpointView:
    """Status, stage, URL, usage and errors of an endpoint."""
    stage = current_stage(endpoint.stages) if endpoint.phase is Phase.CREATING else None
    name = _STAGES[stage.name] if stage else None
    errors: tuple[CustomerErrorView, ...] = ()
    reason, message = "", ""
    if endpoint.phase is Phase.FAILED:
        reason, message = _ENDED.get(endpoint.reason, _FAILED)
        errors = (CustomerErrorView(reason=reason, message=message),)
    elif stage is not None and name is not None and stage.state is StageState.ERROR:
        reason, message = _STUCK[name]
        errors = (CustomerErrorView(reason=reason, message=message),)
    elif name is not None and stage is not None:
        reason, message = _GOES_ON[name]
        if name == "loading" and stage.reason in _LOADING:
            reason, message = stage.reason, _LOADING[stage.reason]
    return CustomerEndpointView(
        id=endpoint.id,
        name=endpoint.name,
        phase=endpoint.phase,
        stage=name,
        reason=reason,
        message=message,
        url=endpoint.plan.address.url,
        model=endpoint.name,
        usage=f"/v1/usage?endpoint={endpoint.id}",
        errors=errors,
        created_at=endpoint.created_at,
    )


def customer_refusal(error: RejectedError) -> RejectedError:
    """The same refusal without what only the provider may know: which tiers, models and machines there are."""
    findings = tuple(_customer_finding(finding) for finding in error.findings)
    return RejectedError(f"admitting endpoint: {len(findings)} finding(s)", reason=error.reason, findings=findings)


def _customer_finding(finding: Finding) -> Finding:
    if finding.reason in _TOLD_AS_THEY_ARE:
        return finding
    if finding.reason == "UnknownField":
        return replace(finding, hint=None)
    field = "" if finding.object else finding.field
    message = f"reading {field or 'the request'}: not offered"
    return Finding(reason="NotOffered", message=message, field=field, hint="ask your provider what is offered")
