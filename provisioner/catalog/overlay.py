"""The catalog of a server: what its files say, with what the API said of models laid over it. Pure.

A version of origin `file` is history: each server goes by its own files, which belong to its own tiers and runtimes.
What cannot be laid over them is left out and told, so that one model does not take the others with it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from provisioner.catalog.catalog import Catalog
from provisioner.catalog.checks import check_model
from provisioner.catalog.model import Model
from provisioner.catalog.written import document_of, model_of
from provisioner.domain.errors import InvariantError
from provisioner.domain.finding import Finding, Severity
from provisioner.domain.model_version import ModelVersion, VersionOrigin


@dataclass(frozen=True, slots=True)
class Overlay:
    """The catalog, and what there is to know about models of it, by id."""

    catalog: Catalog
    findings: Mapping[str, tuple[Finding, ...]]


def lay_over(files: Catalog, newest: Iterable[ModelVersion], imported: Collection[tuple[str, str]]) -> Overlay:
    """The files' catalog with the newest version of each model laid over it. `imported` are model and digest of every
    version that a file brought."""
    models, archived = dict(files.models), set()
    findings: dict[str, tuple[Finding, ...]] = {}
    for version in newest:
        if version.archived_at is not None:
            archived.add(version.model)
        found = tuple(_check(version, files, imported))
        if version.origin is VersionOrigin.API:
            models.pop(version.model, None)
            if all(finding.severity is not Severity.ERROR for finding in found):
                models[version.model] = model_of(version)
        if found:
            findings[version.model] = found
    return Overlay(replace(files, models=models, archived=frozenset(archived)), findings)


def _check(version: ModelVersion, files: Catalog, imported: Collection[tuple[str, str]]) -> Iterator[Finding]:
    file = files.models.get(version.model)
    if version.origin is VersionOrigin.FILE:
        if file is None:
            message = f"reading model: its file is gone, so it is not offered: `{version.model}`"
            hint = "put the file back, or bring the model in with `tenantry model import FILE`"
            yield Finding(reason="FileGone", message=message, hint=hint, severity=Severity.WARNING)
        return
    if file is not None and _is_in_conflict(version, file, imported):
        message = f"importing model: its file changed and was not imported over what the API said: `{version.model}`"
        hint = (
            "bring the file in with `tenantry model import FILE`, or put what the API says in its place with "
            "`tenantry model export ID --out DIR`"
        )
        yield Finding(reason="ImportConflict", message=message, hint=hint, severity=Severity.WARNING)
    try:
        yield from check_model(model_of(version), files)
    except InvariantError as error:
        yield Finding(reason=error.reason, message=error.message, hint=error.hint)


def _is_in_conflict(version: ModelVersion, file: Model, imported: Collection[tuple[str, str]]) -> bool:
    """Whether the file says something else, and not only what it said when the API changed it."""
    said = document_of(file).digest
    return said != version.digest and (version.model, said) not in imported
