"""Which template an instance gets, and what comes out of it: version resolution, parameters, rendered holes. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from provisioner.domain.errors import RejectedError
from provisioner.embedded.controllers.api import Json, spec_of
from provisioner.embedded.controllers.kinds import project_of
from provisioner.embedded.controllers.manifests import parse_mapping
from provisioner.embedded.controllers.templating import TemplateError, fill_parameters, render

_VERSION = re.compile(r"(\d+)\.(\d+|[xX])\.(\d+|[xX])")
_EXACT = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_ANY = re.compile(r"[xX]\.[xX]\.[xX]")


def resolve(instance: Json, template: Json | None) -> Json:
    """The rendered `template` of an instance: its inline one, or the right version of the template it refers to.

    TemplateError with the Platform's reasons: TemplateNotFound, VersionError, VersionNotFound,
    ErrorSyncingParameters, ErrorRenderingTemplate.
    """
    spec = spec_of(instance)
    if (reference := spec.get("templateRef")) is None:
        chosen: Json = {"template": spec.get("template")}
    elif template is None:
        raise TemplateError("TemplateNotFound", f"virtual cluster template {reference.get('name')} not found")
    else:
        chosen = _choose(template, reference.get("version") or "")
    try:
        given = parse_mapping(spec.get("parameters") or "", what="spec.parameters")
    except RejectedError as error:
        raise TemplateError("ErrorSyncingParameters", error.message) from error
    values = fill_parameters(chosen.get("parameters") or (), given)
    values["loft"] = loft_values(instance)
    rendered: Json = render(chosen.get("template") or {}, values)
    return rendered


def loft_values(instance: Json) -> dict[str, Any]:
    """The values that the Platform adds: `.Values.loft.name` and so on."""
    metadata, spec = instance["metadata"], spec_of(instance)
    project, owner = project_of(metadata["namespace"]), spec.get("owner") or {}
    return {
        "name": metadata["name"],
        "project": project,
        "cluster": (spec.get("clusterRef") or {}).get("cluster", ""),
        "virtualClusterName": metadata["name"],
        "virtualClusterNamespace": f"loft-{project}-v-{metadata['name']}",
        "user": {"name": owner.get("user", "")},
        "team": {"name": owner.get("team", "")},
    }


def _choose(template: Json, wanted: str) -> Json:
    spec = spec_of(template)
    versions: Sequence[Json] = spec.get("versions") or ()
    if not versions:
        if wanted and not _ANY.fullmatch(wanted):
            raise TemplateError("VersionNotFound", f"template has no versions, version {wanted} not found")
        return {"template": spec.get("template"), "parameters": spec.get("parameters")}
    if wanted and not _VERSION.fullmatch(wanted) and not _ANY.fullmatch(wanted):
        raise TemplateError("VersionError", f"version is not of the form 1.2.3, 1.2.X or 1.X.X: {wanted}")
    found = [version for version in versions if _matches(wanted, version.get("version", ""))]
    if not found:
        raise TemplateError("VersionNotFound", f"version not found in template: {wanted}")
    return max(found, key=lambda version: tuple(int(part) for part in version["version"].split(".")))


def _matches(wanted: str, version: str) -> bool:
    if not _EXACT.fullmatch(version):
        return False
    pairs = zip(wanted.split("."), version.split("."), strict=True) if wanted else ()
    return all(want in ("x", "X") or int(want) == int(have) for want, have in pairs)
