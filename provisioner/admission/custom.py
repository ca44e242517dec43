"""What a customer may bring: another runtime, an image, adapters; and whether what runs is pinned and allowed. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from provisioner.admission.serving import ServingForm
from provisioner.catalog.catalog import IMAGE_PATTERN, Catalog
from provisioner.catalog.fields import shown
from provisioner.catalog.model import Model
from provisioner.catalog.offer import is_in_default_catalog, offered_models
from provisioner.catalog.runtime import Runtime
from provisioner.catalog.site import ANY_REGISTRY, Site
from provisioner.catalog.tier import Storage, Tenancy, Tier
from provisioner.domain.finding import Finding, Severity, unknown_name_hint
from provisioner.domain.tenant import POOL_TENANT

WEIGHTS_NOT_NAMED = "WeightsNotNamed"
"""Why a plan is not rendered whose model does not say what the asked runtime loads."""
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def check_model(
    model: Model, runtime: Runtime, *, site: Site, tier: Tier | None, catalog: Catalog
) -> Iterator[Finding]:
    """Findings about a model and the runtime that is to serve it."""
    if not is_in_default_catalog(model, site):
        message = f"reading model: sites of profile `{site.profile}` do not offer `{model.id}`"
        hint = unknown_name_hint(model.id, offered_models(catalog, site))
        yield Finding(reason="ModelNotOffered", message=message, field="model", hint=hint)
    if not site.allows_runtime(runtime):
        message = f"reading model: this site does not run its runtime: `{runtime.name}`"
        hint = f"sites of profile `{site.profile}` run: {_allowed_runtimes(site, catalog)}"
        yield Finding(reason="RuntimeNotAllowed", message=message, field="model", hint=hint)
    if tier is not None and runtime.name not in tier.runtimes:
        message = f"reading model: tier `{tier.name}` does not run its runtime: `{runtime.name}`"
        hint = f"tier `{tier.name}` runs: {', '.join(tier.runtimes)}"
        yield Finding(reason="RuntimeNotInTier", message=message, field="model", hint=hint)
    if model.kind not in runtime.kinds:
        kinds = ", ".join(kind.value for kind in runtime.kinds)
        message = f"reading runtime: `{runtime.name}` serves {kinds}, model `{model.id}` is of kind: {model.kind.value}"
        yield Finding(
            reason="KindNotServed", message=message, field="serving.runtime", hint="leave serving.runtime out"
        )
    if runtime.models is not None and model.id not in runtime.models:
        message = f"reading runtime: `{runtime.name}` serves only {', '.join(runtime.models)}, found {shown(model.id)}"
        yield Finding(
            reason="ModelNotServed", message=message, field="serving.runtime", hint="leave serving.runtime out"
        )
    for name in sorted(runtime.wanted_of_masters - model.master.serving.keys()):
        message = f"reading runtime: `{runtime.name}` loads weights by `{name}`, which model `{model.id}` does not name"
        yield Finding(
            reason=WEIGHTS_NOT_NAMED, message=message, field="serving.runtime", hint="leave serving.runtime out"
        )


def check_image(
    image: str, serving: ServingForm, *, site: Site, key: str, registries: Collection[str]
) -> Iterator[Finding]:
    """Findings about the image that is to run: retired, without a digest, of no registry that is allowed.

    `key` is its key in versions.yaml where the request names none; no `registries` says that nobody asks for any.
    """
    field = "serving.image" if serving.image else "model"
    change = "name another image" if serving.image else f"give `images.{key}` in versions.yaml another image"
    if not image:
        message = f"reading image: versions.yaml names none for: `{key}`"
        yield Finding(reason="ImageUnknown", message=message, field=field, hint=f"add `images.{key}` to versions.yaml")
        return
    if _URL.match(image):
        message = f"reading image: an address is no image: {shown(image)}"
        yield Finding(reason="HostedModel", message=message, field=field, hint="name an image by repository and digest")
        return
    if not re.fullmatch(IMAGE_PATTERN, image):
        hint = "write repository[:tag]@sha256:<64 hex digits>"
        yield Finding(
            reason="InvalidImage", message=f"reading image: not a reference: {shown(image)}", field=field, hint=hint
        )
        return
    if site.is_retired(image):
        message = f"reading image: it is retired: `{image}`"
        yield Finding(reason="ImageRetired", message=message, field=field, hint=change)
    if site.profile == "prod" and "@sha256:" not in image:
        message = f"reading image: it has no digest: `{image}`"
        hint = "add @sha256:<digest>" if serving.image else f"add the digest to `images.{key}` in versions.yaml"
        yield Finding(reason="ImageNotPinned", message=message, field=field, hint=hint)
    if registries and not any(_lies_in(image if serving.image else site.mirrored(image), name) for name in registries):
        message = f"reading image: not from a registry that this site allows: `{image}`"
        hint = f"{change}; allowed: {', '.join(registries)}"
        yield Finding(reason="RegistryNotAllowed", message=message, field=field, hint=hint)


def allowed_registries(tier: Tier, catalog: Catalog, site: Site) -> tuple[str, ...]:
    """Where images of the tier's endpoints may come from; nothing where its policies do not ask."""
    return site.image_registries(catalog.images, tier) if "image-registry" in tier.policies else ()


def _lies_in(image: str, registry: str) -> bool:
    """Whether an image is from a registry, or from a path in one: as policy `image-registry` reads it."""
    prefix = registry.rstrip("/")
    ends = ("/", "@", ":") if "/" in prefix else ("/",)
    return registry == ANY_REGISTRY or image.startswith(tuple(prefix + end for end in ends))


def check_custom(serving: ServingForm, tier: Tier, *, tenant: str | None) -> Iterator[Finding]:
    """Findings about what a customer brings to a tier that is not made for it."""
    brought = {"image": serving.image, "adapters": serving.adapters or None}
    for name, value in brought.items():
        if value is not None and not tier.admits_custom_code:
            message = f"reading {name}: tier `{tier.name}` runs nothing that a customer brings"
            hint = "choose a tier with nodes of its own and a sandbox around each replica, such as `isolated`"
            yield Finding(reason="CustomCodeNotAllowed", message=message, field=f"serving.{name}", hint=hint)
    told = sorted(serving.given())
    if tier.tenancy is Tenancy.POOL and tenant != POOL_TENANT and told:
        message = f"reading serving: endpoints of tier `{tier.name}` share a pool that serves as it was published"
        hint = "leave serving out, or choose a tier with a tenant cluster per endpoint"
        yield Finding(reason="PoolServesAsPublished", message=message, field=f"serving.{told[0]}", hint=hint)


def check_weights_in_image(serving: ServingForm, tier: Tier, *, key: str, runtime: Runtime) -> Iterator[Finding]:
    """A warning where weights are read from the image and the image is the engine's own, which holds none."""
    if tier.storage is Storage.IMAGE and serving.image is None and key == runtime.name:
        message = f"reading image: tier `{tier.name}` reads weights from the image, and the engine's has none: `{key}`"
        hint = "name an image with the weights as `image` of the model's master; `pvc` is the storage that fetches them"
        yield Finding(reason="WeightsNotInImage", message=message, field="model", hint=hint, severity=Severity.WARNING)


def check_sources(serving: ServingForm, model: Model, *, site: Site) -> Iterator[Finding]:
    """Findings about hosted services where a sovereign site wants its own engine only."""
    if not site.sovereign:
        return
    sources = {"model": model.master.source}
    sources |= {f"serving.adapters[{at}].source": adapter.source for at, adapter in enumerate(serving.adapters)}
    for field, source in sources.items():
        if _URL.match(source):
            message = f"reading source: a sovereign site loads nothing from a hosted address: {shown(source)}"
            yield Finding(reason="HostedModel", message=message, field=field, hint="name weights of your own mirror")


def _allowed_runtimes(site: Site, catalog: Catalog) -> str:
    return ", ".join(name for name, runtime in sorted(catalog.runtimes.items()) if site.allows_runtime(runtime))
