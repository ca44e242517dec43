"""`tenantry plan`: what creating an endpoint would do, decided offline from catalog and site."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from provisioner.cli.catalog import CatalogOption
from provisioner.cli.output import Format, OutputOption, located, print_fields, print_findings, print_json, say
from provisioner.domain.errors import RejectedError
from provisioner.domain.finding import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from provisioner.admission import Forecast
    from provisioner.wire.endpoint import TrafficView
    from provisioner.wire.plan import CapacityView, ForecastPlanView, GpuMemoryView, RolloutView

FileOption = Annotated[Path, typer.Option("--file", "-f", help="REQUEST.yaml, or - for standard input.")]
OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out",
        help="Write the manifests into this folder, which must be new or empty; its pool, if any, goes below pool/.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("plan")(plan)


def plan(
    file: FileOption, catalog: CatalogOption = None, out: OutOption = None, output: OutputOption = Format.TABLE
) -> None:
    """Print what creating an endpoint would do.

    And everything that is wrong with the request. Creates nothing and asks nobody. The request may hold what is to be
    assumed: profile, kubernetesVersion, platformVersion, and capacity (free GPUs by node type). Ends with 1 when a
    finding is an error.

    \b
    Examples:
      tenantry plan -f REQUEST.yaml
      tenantry plan -f REQUEST.yaml -o json
      tenantry plan -f REQUEST.yaml --out manifests/
    """
    from provisioner.cli.requestfile import read_request

    unread: str | None = str(file)
    try:
        request = read_request(file)
        unread = None
        forecast, files = _forecast(request.body, catalog)
    except RejectedError as error:
        _print(error.findings or (_unread(error, unread),), None, output)
        raise typer.Exit(1) from error
    findings = tuple(
        finding if finding.object else located(finding, request.name, request.lines) for finding in forecast.findings
    )
    if out is not None and not _is_refused(findings):
        findings = (*findings, *_write(out, files))
    _print(findings, _view(forecast, files.endpoint), output)
    if _is_refused(findings):
        raise typer.Exit(1)


class _Files(NamedTuple):
    """Manifests by path: what creating the endpoint brings, and what the pool that serves it is made of."""

    endpoint: Mapping[str, bytes]
    pool: Mapping[str, bytes]


def _forecast(body: Mapping[str, Any], own: Path | None) -> tuple[Forecast, _Files]:
    from provisioner.admission import assume, forecast_endpoint
    from provisioner.settings import read_settings
    from provisioner.wiring import load_planning_offer, site_note

    settings = read_settings()
    catalog, site = load_planning_offer(settings, overlay=own)
    if note := site_note(settings):
        say(note)
    forecast = forecast_endpoint(body, catalog=catalog, site=site)
    if forecast.plan is None or not forecast.renders:
        return forecast, _Files({}, {})
    from provisioner.admission.manifests import ManifestJudge, untold
    from provisioner.rendering.manifests import endpoint_files, pool_files
    from provisioner.rendering.pack import compile_pack

    pack = compile_pack(catalog, assume(site, body), overlay=own)
    try:
        plan = pack.revised(forecast.plan)
        files = _Files(endpoint_files(pack, plan), pool_files(pack, plan))
        forecast = replace(forecast, plan=plan)
        refusals = untold(ManifestJudge(pack).findings(plan), forecast.findings)
    except RejectedError as error:  # a template of the pack does not render
        files = _Files({}, {})
        refusals = error.findings or (Finding(reason=error.reason, message=error.message, hint=error.hint),)
    return replace(forecast, findings=(*forecast.findings, *refusals)), files


def _write(out: Path, files: _Files) -> tuple[Finding, ...]:
    from provisioner.cli.folder import write_folder

    try:
        write_folder(out, {**files.endpoint, **files.pool})
    except RejectedError as error:
        return (Finding(reason=error.reason, message=error.message, hint=error.hint),)
    pool = f", and below {out / 'pool'} the {len(files.pool)} of its pool" if files.pool else ""
    say(f"wrote {_counted(len(files.endpoint))} below {out}{pool}")
    return ()


def _counted(manifests: int) -> str:
    return "1 manifest" if manifests == 1 else f"{manifests} manifests"


def _is_refused(findings: tuple[Finding, ...]) -> bool:
    return any(finding.severity is Severity.ERROR for finding in findings)


def _view(forecast: Forecast, files: Mapping[str, bytes]) -> ForecastPlanView | None:
    from dataclasses import asdict

    from provisioner.rendering.manifests import kinds
    from provisioner.wire.plan import ForecastPlanView

    if forecast.plan is None:
        return None
    fields = {**asdict(forecast.plan), "objects": kinds(files), "features": forecast.features}
    return ForecastPlanView.model_validate(fields)


def _print(findings: tuple[Finding, ...], view: ForecastPlanView | None, output: Format) -> None:
    if output is Format.JSON:
        from provisioner.wire.finding import FindingView
        from provisioner.wire.plan import ForecastView

        told = ForecastView(findings=tuple(map(FindingView.of, findings)), plan=view)
        print_json(told.model_dump(mode="json", by_alias=True))
        return
    if view is not None:
        print_fields(_for_people(view))
    print_findings(findings)


def _for_people(view: ForecastPlanView) -> dict[str, object]:
    """What somebody wants to know before creating it; `-o json` has everything."""
    place, capacity, runtime = view.placement, view.capacity, view.runtime
    sent = ", ".join(f"{name} {value}" for name, value in view.limits.items())
    return {
        "endpoint": f"{view.name} of {view.tenant} ({view.endpoint})",
        "url": view.address.url,
        "tier": f"{view.tier} {view.tier_version}, tenancy {view.tenancy}, profile {view.profile}",
        "project": f"{place.project} in {place.control_plane}, region {view.region}",
        "tenantCluster": place.tenant_cluster,
        "pool": _pool(view),
        "template": f"{place.template} {place.template_version}",
        "parameters": dict(place.parameters),
        "model": f"{runtime.model} on {runtime.runtime}",
        "image": runtime.image,
        "serving": dict(runtime.serving),
        "extraArguments": runtime.extra_arguments,
        "adapters": [f"{adapter.name} from {adapter.source}" for adapter in runtime.adapters],
        "replicas": f"{runtime.min_replicas} to {runtime.max_replicas}, by {', '.join(runtime.signals)}",
        "storage": runtime.storage,
        "nodes": _nodes(capacity),
        "gpus": _gpus(capacity),
        "gpuMemory": _gpu_memory(capacity.gpu_memory),
        "rollout": _rollout(view.rollout),
        "limits": sent or None,
        "traffic": _traffic(view.traffic),
        "quota": dict(view.quota),
        "objects": dict(view.objects),
        "features": view.features,
    }


def _pool(view: ForecastPlanView) -> str | None:
    if view.pool in (None, view.endpoint):
        return None
    return f"{view.pool}, which is there before: its objects are not counted below"


def _nodes(capacity: CapacityView) -> str:
    more = f", {capacity.burst_nodes} more when pods wait" if capacity.burst_nodes else ""
    each = f", {capacity.nodes_per_replica} for each replica" if capacity.nodes_per_replica > 1 else ""
    return f"{capacity.nodes} x {capacity.node_type}{more}{each}"


def _traffic(traffic: TrafficView) -> str | None:
    told = {
        "open to everybody, without a key": traffic.open,
        f"balance {traffic.balance}": traffic.balance,
        f"at most {traffic.max_tokens} tokens asked for": traffic.max_tokens,
    }
    return ", ".join(text for text, is_told in told.items() if is_told) or None


def _gpus(capacity: CapacityView) -> str:
    claim, what = capacity.claim, capacity.gpu_resource
    if claim is not None:
        part = f" (MIG {claim.mig_profile})" if claim.mig_profile else ""
        what = f"device of class {claim.device_class}{part}"
    return f"{capacity.gpus_per_replica} x {what} per replica, {capacity.gpus_total} in total"


def _gpu_memory(memory: GpuMemoryView | None) -> str | None:
    if memory is None:
        return None
    weights, cache, usable = (
        f"{count / 10**9:.1f} GB" for count in (memory.weights_bytes, memory.cache_bytes, memory.usable_bytes)
    )
    longest = f"; longest context that fits: {memory.longest_context} tokens" if memory.longest_context else ""
    return f"weights {weights} + cache {cache} of {usable} on each{longest}"


def _rollout(rollout: RolloutView | None) -> str | None:
    if rollout is None:
        return None
    gap = f" with a gap of about {rollout.gap_seconds} s" if rollout.gap_seconds else ""
    return f"{rollout.mode}{gap}: {rollout.reason}"


def _unread(error: RejectedError, file: str | None) -> Finding:
    """The finding about a request file, or about what else could not be read."""
    hint = error.hint or "write the request as YAML or JSON in UTF-8, of at most 256 KiB"
    return Finding(reason=error.reason, message=error.message, hint=hint, file=file, line=1 if file else None)
