"""InferenceServices of KServe: who scales them, from where, and how long their names may be."""

from __future__ import annotations

from collections.abc import Iterator

from provisioner.domain.finding import Severity
from provisioner.lint.joins.scaling import scalers
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.engines._kserve import PARTS, PREFIX, inference_services
from provisioner.lint.values import has_hole, whole
from provisioner.lint.world import Object, World, same_namespace

_LONGEST_LABEL = 63


def _is_standard(found: Object) -> bool:
    return found.annotations.get(f"{PREFIX}deploymentMode") in ("Standard", "RawDeployment")


@rule("kserve-scaled-twice", Severity.ERROR)
def kserve_scaled_twice(world: World) -> Iterator[Hit]:
    """A scaler decides about a Deployment that KServe makes and scales by itself.

    KServe owns Deployment, Service, route and autoscaler of an InferenceService; a second scaler and its own undo each
    other. Annotation `serving.kserve.io/autoscalerClass` of `external` or `none` leaves scaling to others.
    """
    owned = {
        f"{found.name}-{part}": found
        for found in inference_services(world)
        for part in PARTS
        if found.annotations.get(f"{PREFIX}autoscalerClass") not in ("external", "none")
    }
    for scaler in scalers(world) if owned else ():
        found = owned.get(scaler.name or "")
        if found and scaler.kind == "Deployment" and same_namespace(scaler.at.namespace, found.namespace):
            message = f"scaling {scaler.name}: KServe scales it by itself, for InferenceService `{found.name}`"
            fix = f"remove it and set the bounds there, or annotate `{PREFIX}autoscalerClass: external`"
            yield Hit(at=scaler.at, path=("spec", "scaleTargetRef"), message=message, fix=fix)


@rule("kserve-standard-from-zero", Severity.WARNING)
def kserve_standard_from_zero(world: World) -> Iterator[Hit]:
    """An InferenceService in Standard mode is to scale to zero, from where no request can wake it.

    Only the Knative mode holds a request while a pod starts; in Standard mode (once RawDeployment) with KServe's own
    autoscaler, `hpa`, minReplicas stays at 1 or the endpoint answers 503 for good.
    """
    for found in inference_services(world):
        path = ("spec", "predictor", "minReplicas")
        has_own = found.annotations.get(f"{PREFIX}autoscalerClass") not in (None, "hpa")
        if _is_standard(found) and whole(found.value, *path) == 0 and not has_own:
            message = f"scaling {found.name}: nothing wakes it from zero in Standard mode"
            yield Hit(at=found, path=path, message=message, fix="set minReplicas to 1, or use the Knative mode")


@rule("kserve-name-too-long", Severity.ERROR)
def kserve_name_too_long(world: World) -> Iterator[Hit]:
    """Name and namespace of an InferenceService are together too long for one label of its host name.

    KServe makes `<name>-<namespace>.<domain>` (its issue 4807): a label has 63 characters at most, and the service is
    never reconciled.
    """
    for found in inference_services(world):
        host = f"{found.name}-{found.namespace or ''}"
        if len(host) > _LONGEST_LABEL and not has_hole(host):
            message = f"naming host: {len(host)} characters with the namespace, a label has at most 63: `{host}`"
            yield Hit(at=found, path=("metadata", "name"), message=message, fix="shorten the name or the namespace")
