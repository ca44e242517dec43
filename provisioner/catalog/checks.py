"""What no single file can tell: checks across tiers, runtimes, models, versions and the Site. Pure.

Each finding comes with the file it belongs to; the loader adds the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from provisioner.catalog.catalog import Catalog
from provisioner.catalog.model import Model
from provisioner.catalog.runtime import Runtime
from provisioner.catalog.serving import check_serving
from provisioner.catalog.site import Site
from provisioner.catalog.tier import Storage
from provisioner.catalog.tiers import check_component, check_tier
from provisioner.domain.finding import Finding, unknown_name_hint


def check_catalog(catalog: Catalog) -> Iterator[tuple[str, Finding]]:
    """Findings about entries that name each other, with the file of the entry at fault."""
    for runtime in catalog.runtimes.values():
        file = f"applications/runtimes/{runtime.name}/runtime.yaml"
        yield from ((file, finding) for finding in _check_runtime(runtime, catalog))
    for tier in catalog.tiers.values():
        file = f"templates/{tier.name}/tier.yaml"
        for position, name in enumerate(tier.runtimes):
            if name not in catalog.runtimes:
                yield file, _unknown(f"runtimes[{position}]", "runtime", name, catalog.runtimes)
            elif catalog.runtimes[name].loads == "hub" and tier.storage in (Storage.OBJECT_STORE, Storage.IMAGE):
                message = f"reading runtime: `{name}` keeps what it fetches, and can write to no `{tier.storage}`"
                hint = "use storage `pvc`, `nvme` or `shared-filesystem`, or leave the runtime out"
                yield file, Finding(reason="OptionsConflict", message=message, field=f"runtimes[{position}]", hint=hint)
        yield from ((file, finding) for finding in check_tier(tier, catalog.components))
        for other in catalog.tiers:
            if tier.name.endswith(f"-{other}"):
                message = f"reading tier name: projects `<tenant>-<tier>` could not be told from those of `{other}`"
                yield file, Finding(reason="AmbiguousName", message=message, field="name", hint="rename one of them")
    for component in catalog.components.values():
        file = f"applications/stack/{component.name}/component.yaml"
        yield from ((file, finding) for finding in check_component(component, catalog))
    for model in catalog.models.values():
        yield from ((model_file(model.id), finding) for finding in check_model(model, catalog))


def model_file(model: str) -> str:
    """The name of a model's file: its id with `--` for `/`."""
    return f"{model.replace('/', '--')}.yaml"


def check_site(site: Site, catalog: Catalog) -> tuple[Finding, ...]:
    """Findings about a Site that only the catalog can tell: unknown runtimes, none left, more than one engine where
    the Site is sovereign."""
    findings = [
        _unknown(f"runtimes[{position}]", "runtime", name, catalog.runtimes)
        for position, name in enumerate(site.runtimes or ())
        if name not in catalog.runtimes
    ]
    if not findings and not any(site.allows_runtime(runtime) for runtime in catalog.runtimes.values()):
        message = f"reading runtimes: profile `{site.profile}` may run none of them"
        able = sorted(runtime.name for runtime in catalog.runtimes.values() if site.profile in runtime.profiles)
        hint = f"runtimes of this profile: {', '.join(able) or 'none'}"
        findings.append(Finding(reason="NoRuntime", message=message, field="runtimes", hint=hint))
    return (*findings, *_check_storage_of_state(site, catalog), *_check_mapped_models(site, catalog))


def _check_mapped_models(site: Site, catalog: Catalog) -> Iterator[Finding]:
    for position, offer in enumerate(site.fallbacks):
        for model in offer.models:
            if model not in catalog.models:
                yield _unknown(f"fallbacks[{position}].models", "model", model, catalog.models)


def _check_storage_of_state(site: Site, catalog: Catalog) -> Iterator[Finding]:
    """Where tenants' control planes keep state and backups must be known where a tier has them."""
    for tier in catalog.tiers.values():
        plane = tier.control_plane.prod if site.profile == "prod" else tier.control_plane.dev
        if plane.backups and site.snapshots is None:
            message = f"reading snapshots: tier `{tier.name}` takes backups, and there is nowhere to put them"
            yield Finding(reason="BackupsMissing", message=message, field="snapshots", hint="name a storage")
        if plane.backing_store == "external-database" and site.database_connector is None:
            message = f"reading databaseConnector: tier `{tier.name}` keeps its state in an external database"
            hint = "name the Platform's database connector"
            yield Finding(reason="MissingField", message=message, field="databaseConnector", hint=hint)


def check_regions(site: Site) -> Iterator[Finding]:
    """Findings about a Site alone: providers that regions name, names used twice, placeholders, sovereignty."""
    providers = [provider.name for provider in site.providers]
    for name in sorted({name for name in providers if providers.count(name) > 1}):
        message = f"reading provider: named twice: `{name}`"
        yield Finding(reason="DuplicateName", message=message, field="providers", hint="rename one of them")
    for position, provider in enumerate(site.providers):
        types = [node_type.name for node_type in provider.node_types]
        for name in sorted({name for name in types if types.count(name) > 1}):
            message = f"reading node type: named twice: `{name}`"
            field = f"providers[{position}].nodeTypes"
            yield Finding(reason="DuplicateName", message=message, field=field, hint="rename one of them")
    for region_name, region in site.regions.items():
        for position, name in enumerate(region.providers):
            if name not in providers:
                yield _unknown(f"regions.{region_name}.providers[{position}]", "provider", name, providers)
    yield from _check_hostname(site.public.hostname)
    yield from _check_installation(site)
    yield from _check_fallbacks(site)
    if site.sovereign and site.runtimes is not None and len(site.runtimes) != 1:
        message = f"reading runtimes: a sovereign site runs exactly one engine, found {len(site.runtimes)}"
        yield Finding(reason="NotSovereign", message=message, field="runtimes", hint="the default is `mistralrs`")


def _check_fallbacks(site: Site) -> Iterator[Finding]:
    names = [offer.name for offer in site.fallbacks]
    for position, offer in enumerate(site.fallbacks):
        field = f"fallbacks[{position}]"
        if site.sovereign:
            message = f"reading fallbacks: a sovereign site sends nothing outside, found policy `{offer.name}`"
            yield Finding(reason="NotSovereign", message=message, field=field, hint="leave `fallbacks` out")
        if names.index(offer.name) != position:
            message = f"reading fallback: named twice: `{offer.name}`"
            yield Finding(reason="DuplicateName", message=message, field=field, hint="rename one of them")
        if site.profile == "prod" and not offer.url.startswith("https://"):
            message = f"reading url: profile `prod` sends prompts over https only, found: `{offer.url}`"
            yield Finding(reason="InvalidValue", message=message, field=f"{field}.url", hint="write https://…")


def _check_installation(site: Site) -> Iterator[Finding]:
    if site.installation is None:
        return
    image, named = site.installation.image, site.installation.platform.control_plane
    if site.profile == "prod" and not re.search(r"@sha256:[0-9a-f]{64}$", image):
        message = f"reading image: profile `prod` pins it by digest, found: `{image}`"
        hint = "write it as <repository>@sha256:<digest>"
        yield Finding(reason="DigestMissing", message=message, field="installation.image", hint=hint)
    field = "installation.platform.controlPlane"
    if named is not None and named not in site.control_planes:
        yield _unknown(field, "control plane", named, site.control_planes)
    elif named is None and len(site.control_planes) > 1:
        message = "reading controlPlane: the site has several, and one of them runs the Platform"
        hint = f"name it: {', '.join(site.control_planes)}"
        yield Finding(reason="MissingField", message=message, field=field, hint=hint)


def _check_hostname(hostname: str) -> Iterator[Finding]:
    for name in re.findall(r"\{([^}]*)\}", hostname):
        if name not in ("endpoint", "tenant"):
            yield _unknown("public.hostname", "placeholder", name, ("endpoint", "tenant"))
    if set("{}") & set(re.sub(r"\{[^{}]*\}", "", hostname)):
        message = f"reading hostname: a brace without its other half: `{hostname}`"
        hint = "placeholders: {endpoint}, {tenant}"
        yield Finding(reason="InvalidValue", message=message, field="public.hostname", hint=hint)
    if any(label.count("{") > 1 for label in hostname.split(".")):
        message = f"reading hostname: two placeholders in one label make names ambiguous: `{hostname}`"
        yield Finding(reason="AmbiguousName", message=message, field="public.hostname", hint="put a dot between them")


def _check_runtime(runtime: Runtime, catalog: Catalog) -> Iterator[Finding]:
    named = {
        "contextParameter": runtime.context_parameter,
        "concurrencyParameter": runtime.concurrency_parameter,
        "gpusParameter": runtime.gpus_parameter,
    }
    for field, name in named.items():
        if name is not None and name not in runtime.parameters:
            yield _unknown(field, "parameter", name, runtime.parameters)
    for position, model in enumerate(runtime.models or ()):
        if model not in catalog.models:
            yield _unknown(f"models[{position}]", "model", model, catalog.models)


def check_model(model: Model, catalog: Catalog) -> Iterator[Finding]:
    """Findings about a model that runtimes, images and parameters of a catalog tell; the model itself need not be in
    it."""
    master = model.master
    if catalog.versions.image(master.image) is None:
        yield _unknown("master.image", "image key", master.image, catalog.versions.images)
    runtime = catalog.runtimes.get(master.runtime)
    if runtime is None:
        yield _unknown("master.runtime", "runtime", master.runtime, catalog.runtimes)
        return
    if model.kind not in runtime.kinds:
        allowed = ", ".join(kind.value for kind in runtime.kinds)
        message = f"reading kind: runtime `{runtime.name}` serves {allowed}, found `{model.kind.value}`"
        yield Finding(reason="KindNotServed", message=message, field="kind", hint="name another runtime in the master")
    if runtime.models is not None and model.id not in runtime.models:
        message = f"reading runtime: `{runtime.name}` serves only {', '.join(runtime.models)}"
        yield Finding(reason="ModelNotServed", message=message, field="master.runtime", hint="name another runtime")
    for profile in model.profiles:
        if profile != "sovereign" and profile not in runtime.profiles:
            message = f"reading profile: runtime `{runtime.name}` is not for profile: `{profile}`"
            hint = f"allowed: {', '.join(runtime.profiles)}"
            yield Finding(reason="ProfileNotAllowed", message=message, field="profiles", hint=hint)
    yield from check_serving(master.serving, runtime, field="master.serving")
    context = master.serving.get(runtime.context_parameter)
    if isinstance(context, int) and context > model.architecture.context_length:
        message = f"reading context: the model has {model.architecture.context_length}, found {context}"
        field = f"master.serving.{runtime.context_parameter}"
        yield Finding(reason="ContextTooLong", message=message, field=field, hint="lower it to what the model has")


def _unknown(field: str, what: str, name: str, known: Iterable[str]) -> Finding:
    message = f"reading {what}: unknown `{name}`"
    reason = f"Unknown{what.split()[0].title()}"
    return Finding(reason=reason, message=message, field=field, hint=unknown_name_hint(name, known))
