"""Manifests as text: YAML in, JSON objects out, with a hint at where it went wrong.

Read from template objects and from the delivery repository, both written by people or programs we do not control.
"""

from __future__ import annotations

from typing import Any

import yaml

from provisioner.domain.errors import RejectedError
from provisioner.embedded.controllers.api import Json

LARGEST_TEXT_BYTES = 4 * 2**20


class _Loader(yaml.CSafeLoader):
    """Plain scalars that look like dates stay strings, as they are for Kubernetes."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def parse_mapping(text: str, *, what: str) -> Json:
    """One YAML mapping; empty text is an empty mapping. RejectedError names `what` when it is something else."""
    documents = _load(text, what)
    if len(documents) > 1 or not all(isinstance(document, dict) for document in documents):
        raise RejectedError(f"reading {what}: not one YAML mapping")
    return documents[0] if documents else {}


def parse_manifests(text: str, *, what: str) -> list[Json]:
    """All objects of a YAML text, Lists taken apart. RejectedError names `what` when something is no object."""
    manifests: list[Json] = []
    for document in _load(text, what):
        if isinstance(document, dict) and document.get("kind") == "List":
            manifests.extend(document.get("items") or ())
        else:
            manifests.append(document)
    for manifest in manifests:
        if not _is_object(manifest):
            raise RejectedError(f"reading {what}: an object without apiVersion, kind or metadata.name")
    return manifests


def _is_object(manifest: Any) -> bool:
    if not isinstance(manifest, dict) or not isinstance(manifest.get("metadata"), dict):
        return False
    named = (manifest.get("apiVersion"), manifest.get("kind"), manifest["metadata"].get("name"))
    return all(isinstance(value, str) and value for value in named)


def _load(text: str, what: str) -> list[Any]:
    if len(text) > LARGEST_TEXT_BYTES:
        raise RejectedError(f"reading {what}: larger than {LARGEST_TEXT_BYTES} bytes")
    try:
        return [document for document in yaml.load_all(text, _Loader) if document is not None]
    except yaml.YAMLError as error:
        raise RejectedError(f"reading {what}: not YAML: {error}") from error
