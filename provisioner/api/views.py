"""Domain values as the wire shows them. Pure: the present moment comes in."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from provisioner.admission.form import request_json
from provisioner.domain.conditions import Stage, StageName, StageState, current_stage
from provisioner.domain.endpoint import Endpoint, Phase
from provisioner.domain.key import ApiKey
from provisioner.domain.operation import Operation, OperationState, StepRecord, Verb
from provisioner.domain.plan import RuntimePlan
from provisioner.domain.snapshot import Snapshot
from provisioner.wire.endpoint import ChangeView, EndpointView, Identifiers, ModelState, ScalingView, TrafficView
from provisioner.wire.fleet import FleetView, RequestView, RunningEndpointView
from provisioner.wire.key import AllowanceView, KeyView
from provisioner.wire.operation import OperationError, OperationResponse, OperationView, StageView, StepView

_REMOVING = frozenset({Verb.ENDPOINT_DELETE, Verb.ENDPOINT_RECLAIM, Verb.TENANT_OFFBOARD})


def endpoint_view(endpoint: Endpoint, now: datetime) -> EndpointView:
    """Status, URL, model state and identifiers of an endpoint, with every stage and how long it took."""
    return listed_view(endpoint).model_copy(update={"stages": stage_views(endpoint, now)})


def listed_view(endpoint: Endpoint) -> EndpointView:
    """An endpoint in a list: without its stages, which are most of it, but for the first that is not done."""
    plan = endpoint.plan
    stage = current_stage(endpoint.stages)
    return EndpointView(
        id=endpoint.id,
        name=endpoint.name,
        tenant=endpoint.tenant,
        team=plan.team,
        region=plan.region,
        tier=plan.tier,
        phase=endpoint.phase,
        reason=endpoint.reason or (stage.reason if stage else ""),
        message=endpoint.message or (stage.message if stage else ""),
        stage=stage.name if stage else None,
        url=plan.address.url,
        model=ModelState(
            id=plan.runtime.model,
            alias=endpoint.name,
            served_model=plan.runtime.served_model,
            runtime=plan.runtime.runtime,
            kind=plan.runtime.kind,
            state=_model_state(endpoint),
        ),
        identifiers=Identifiers(
            project=plan.placement.project,
            tenant_cluster=plan.placement.tenant_cluster,
            template=plan.placement.template,
            template_version=plan.placement.template_version,
            node_type=plan.capacity.node_type,
            node_claims=next((stage.objects for stage in endpoint.stages if stage.name is StageName.CAPACITY), ()),
            route=endpoint.id,
            operation=endpoint.operation,
            revision=plan.runtime.revision,
        ),
        scaling=_scaling_view(plan.runtime),
        traffic=TrafficView.model_validate(plan.traffic),
        change=_change_view(endpoint),
        created_at=endpoint.created_at,
        updated_at=endpoint.updated_at,
    )


def key_view(key: ApiKey) -> KeyView:
    """A key by its prefix, with what it may do spelt out."""
    return KeyView(
        id=key.id,
        name=key.name,
        prefix=key.prefix,
        role=key.role,
        scopes=tuple(sorted(key.permitted)),
        tenant=key.tenant,
        team=key.team,
        endpoints=key.endpoints,
        allowance=AllowanceView.model_validate(key.allowance) if key.allowance else None,
        created_at=key.created_at,
        created_by=key.created_by,
        expires_at=key.expires_at,
        revoked_at=key.revoked_at,
        last_used_at=key.last_used_at,
    )


def _scaling_view(runtime: RuntimePlan) -> ScalingView:
    return ScalingView(min_replicas=runtime.min_replicas, max_replicas=runtime.max_replicas)


def _change_view(endpoint: Endpoint) -> ChangeView | None:
    if endpoint.change is None:
        return None
    runtime = endpoint.change.plan.runtime
    return ChangeView(
        model=runtime.model,
        revision=runtime.revision,
        scaling=_scaling_view(runtime),
        traffic=TrafficView.model_validate(endpoint.change.plan.traffic),
    )


def fleet_view(endpoints: Sequence[Endpoint], snapshot: Snapshot | None) -> FleetView:
    """Endpoints as previews look at them. Of a ready one at least as many replicas run as it was asked for with."""
    serving = {route.endpoint: len(route.backends) for route in snapshot.routes} if snapshot else {}
    return FleetView(
        endpoints=tuple(
            RunningEndpointView(
                id=endpoint.id,
                tenant=endpoint.tenant,
                request=RequestView.model_validate(request_json(endpoint.request)),
                template_version=endpoint.plan.placement.template_version,
                replicas=max(
                    serving.get(endpoint.id, 0),
                    endpoint.plan.runtime.min_replicas if endpoint.phase is Phase.READY else 0,
                ),
            )
            for endpoint in endpoints
        )
    )


def operation_view(operation: Operation, endpoint: Endpoint | None, now: datetime) -> OperationView:
    """An operation, with the stages of the endpoint that it makes; of one that it deletes they say what was, not what
    is being done."""
    return OperationView(
        id=operation.id,
        verb=operation.verb,
        tenant=operation.tenant,
        subject=operation.subject,
        state=operation.state,
        done=operation.state.is_final,
        response=_response(operation) if operation.state is OperationState.SUCCEEDED else None,
        error=_error(operation) if operation.state in (OperationState.FAILED, OperationState.CANCELLED) else None,
        reason=operation.reason,
        message=operation.message,
        hint=operation.hint,
        attempts=operation.attempts,
        created_at=operation.created_at,
        updated_at=max(operation.updated_at, endpoint.updated_at) if endpoint else operation.updated_at,
        steps=tuple(_step_view(record, now) for record in operation.steps),
        stages=stage_views(endpoint, now) if endpoint and operation.verb is Verb.ENDPOINT_CREATE else (),
    )


def _response(operation: Operation) -> OperationResponse:
    if operation.verb in _REMOVING:
        return OperationResponse()
    kind = f"{operation.verb.noun}s"
    return OperationResponse(resource=f"/v1/{kind}/{operation.subject}")


def _error(operation: Operation) -> OperationError:
    return OperationError(reason=operation.reason, message=operation.message, hint=operation.hint)


def stage_views(endpoint: Endpoint, now: datetime) -> tuple[StageView, ...]:
    """The stages with the time that each took, or has taken so far.

    A stage begins when all before it are done. Some are observed together, so one that was done before its turn took
    no time of its own. Once nothing goes on any more, time stands still.
    """
    views = []
    now = now if endpoint.phase is Phase.CREATING else min(now, endpoint.updated_at)
    begun: datetime | None = endpoint.created_at
    for stage in endpoint.stages:
        views.append(_stage_view(stage, begun, now))
        is_done = stage.state is StageState.DONE and stage.since is not None
        begun = max(begun, stage.since) if begun and is_done and stage.since else None
    return tuple(views)


def _stage_view(stage: Stage, begun: datetime | None, now: datetime) -> StageView:
    elapsed: float | None = None
    if stage.state is StageState.DONE:
        elapsed = max(0.0, (stage.since - begun).total_seconds()) if begun and stage.since else 0.0
    elif begun is not None:
        elapsed = max(0.0, (now - begun).total_seconds())
    return StageView(
        name=stage.name,
        state=stage.state,
        reason=stage.reason,
        message=stage.message,
        since=stage.since,
        elapsed_seconds=elapsed,
    )


def _step_view(record: StepRecord, now: datetime) -> StepView:
    elapsed = ((record.finished_at or now) - record.started_at).total_seconds() if record.started_at else None
    return StepView(
        name=record.name,
        attempts=record.attempts,
        started_at=record.started_at,
        finished_at=record.finished_at,
        reason=record.reason,
        message=record.message,
        elapsed_seconds=elapsed,
    )


def _model_state(endpoint: Endpoint) -> str:
    """Whether the model answers: `Ready`, the reason why not yet, or what became of the endpoint."""
    if endpoint.phase in (Phase.READY, Phase.DRAINED, Phase.DELETING, Phase.FAILED):
        return endpoint.phase
    return _loading_reason(endpoint.stages)


def _loading_reason(stages: Sequence[Stage]) -> str:
    loading = next(stage for stage in stages if stage.name is StageName.LOADING)
    return "Ready" if loading.state is StageState.DONE else loading.reason or "Pending"
