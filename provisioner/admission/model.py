"""Whether a model may be brought in over the API: all that its file would be refused for, and what this installation
would never offer. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from provisioner.admission.custom import allowed_registries, check_image, check_sources
from provisioner.admission.serving import ServingForm
from provisioner.catalog.catalog import Catalog
from provisioner.catalog.checks import check_model, model_file
from provisioner.catalog.document import MAX_BYTES, parse_document
from provisioner.catalog.fields import shown, validate_fields
from provisioner.catalog.model import Model
from provisioner.catalog.offer import is_in_default_catalog
from provisioner.catalog.runtime import Runtime
from provisioner.catalog.site import Site
from provisioner.catalog.written import document_of
from provisioner.domain.errors import RejectedError
from provisioner.domain.finding import Finding
from provisioner.domain.model_version import ModelDocument
from provisioner.rendering.canonical import canonical_yaml

RESERVED_NAMES = ("export", "versions")
"""Last parts of an id that would be the path of something else."""


def admit_model(raw: Any, *, catalog: Catalog, site: Site, named: str | None = None) -> ModelDocument:
    """What is to be stored of a JSON value with the fields of a model's file. `named` is the id that it must have.

    Raises RejectedError with every finding.
    """
    model = validate_fields(Model, raw)
    if isinstance(model, tuple):
        raise _rejected(model)
    if findings := tuple(_check(model, catalog, site, named)):
        raise _rejected(findings)
    document = document_of(model)
    if findings := tuple(_check_text(document)):
        raise _rejected(findings)
    return document


def model_text(document: ModelDocument) -> str:
    """The file of a model, as a folder for `--catalog` holds it below `models/`."""
    return canonical_yaml(document.body)


def _check(model: Model, catalog: Catalog, site: Site, named: str | None) -> Iterator[Finding]:
    if named is not None and model.id != named:
        message = f"reading id: it must be the one of the path, found {shown(model.id)}"
        yield Finding(reason="NameMismatch", message=message, field="id", hint=f"write `{named}`, or add another model")
    if model.id.rpartition("/")[2] in RESERVED_NAMES:
        message = f"reading id: its last part is the name of a path: {shown(model.id)}"
        yield Finding(reason="ReservedName", message=message, field="id", hint="choose another name")
    yield from check_model(model, catalog)
    yield from _check_site(model, catalog, site)


def _check_site(model: Model, catalog: Catalog, site: Site) -> Iterator[Finding]:
    """Findings about what this installation would refuse of every endpoint with the model."""
    if not is_in_default_catalog(model, site):
        wanted = "sovereign" if site.sovereign else site.profile
        message = f"reading profiles: this installation would not offer it, for want of: {wanted}"
        yield Finding(reason="ModelNotOffered", message=message, field="profiles", hint=f"add `{wanted}`")
    for finding in check_sources(ServingForm(), model, site=site):
        yield replace(finding, field="master.source")
    runtime = catalog.runtimes.get(model.master.runtime)
    if runtime is not None:
        yield from _check_runtime(model, runtime, catalog, site)


def _check_runtime(model: Model, runtime: Runtime, catalog: Catalog, site: Site) -> Iterator[Finding]:
    field = "master.runtime"
    tiers = [tier for tier in catalog.tiers.values() if runtime.name in tier.runtimes]
    if not site.allows_runtime(runtime):
        message = f"reading runtime: this installation does not run it: `{runtime.name}`"
        able = ", ".join(name for name, other in sorted(catalog.runtimes.items()) if site.allows_runtime(other))
        yield Finding(reason="RuntimeNotAllowed", message=message, field=field, hint=f"it runs: {able or 'none'}")
    elif not tiers:
        able = ", ".join(sorted({name for tier in catalog.tiers.values() for name in tier.runtimes}))
        message = f"reading runtime: no tier runs it: `{runtime.name}`"
        yield Finding(reason="RuntimeNotInTier", message=message, field=field, hint=f"tiers run: {able or 'none'}")
    image = catalog.versions.image(model.master.image)
    if image is not None:
        each = [allowed_registries(tier, catalog, site) for tier in tiers]
        anywhere = () if not all(each) else tuple(sorted({name for names in each for name in names}))
        is_pinned_elsewhere = model.master.image in catalog.versions.images  # by who keeps versions.yaml, in time
        for finding in check_image(image, ServingForm(), site=site, key=model.master.image, registries=anywhere):
            if not (finding.reason == "ImageNotPinned" and is_pinned_elsewhere):
                yield replace(finding, field="master.image")


def _check_text(document: ModelDocument) -> Iterator[Finding]:
    """Findings about what a file could not say, so that every model can be exported."""
    text = model_text(document)
    if len(text.encode()) > MAX_BYTES:
        message = f"reading model: its file would have more bytes than: {MAX_BYTES}"
        yield Finding(reason="FileTooLarge", message=message, hint="shorten its texts")
        return
    try:
        parse_document(text, file=model_file(document.model))
    except RejectedError as error:
        yield from (replace(finding, file=None, line=None) for finding in error.findings)


def _rejected(findings: tuple[Finding, ...]) -> RejectedError:
    return RejectedError(f"admitting model: {len(findings)} finding(s)", reason="InvalidRequest", findings=findings)
