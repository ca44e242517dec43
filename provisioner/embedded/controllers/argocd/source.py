"""What an ArgoCDApplication wants: its template found, its holes filled, its sources told apart.

Called by the application controller; reads the template and writes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from provisioner.embedded.controllers.api import Api, Json, spec_of
from provisioner.embedded.controllers.kinds import APPLICATION_TEMPLATE, project_of
from provisioner.embedded.controllers.templating import TemplateError, fill_parameters, render


@dataclass(frozen=True, slots=True)
class Wanted:
    """A rendered Argo CD ApplicationSpec, as far as it is obeyed."""

    spec: Json

    @property
    def sources(self) -> Sequence[Json]:
        """All sources; `sources` supersedes `source`."""
        several: Sequence[Json] = self.spec.get("sources") or ()
        return several or ([self.spec["source"]] if self.spec.get("source") else ())

    @property
    def namespace(self) -> str:
        """The destination namespace of manifests that name none."""
        namespace: str = (self.spec.get("destination") or {}).get("namespace") or "default"
        return namespace

    @property
    def _policy(self) -> Json:
        policy: Json = self.spec.get("syncPolicy") or {}
        return policy

    @property
    def automated(self) -> Json | None:
        """The automated sync policy, None when syncing is by hand."""
        automated: Json | None = self._policy.get("automated")
        return automated

    @property
    def creates_namespace(self) -> bool:
        """Whether the destination namespace is made."""
        return "CreateNamespace=true" in (self._policy.get("syncOptions") or ())


async def resolve(api: Api, application: Json) -> Wanted:
    """The rendered spec. TemplateError with the Platform's reasons TemplateNotFound and BuildApplicationFailed."""
    spec, metadata = spec_of(application), application["metadata"]
    if reference := spec.get("templateRef"):
        template = await api.get(APPLICATION_TEMPLATE, reference["name"])
        if template is None:
            raise TemplateError("TemplateNotFound", f"application template not found: {reference['name']}")
        definition, declared = spec_of(template).get("template") or {}, spec_of(template).get("parameters") or ()
    else:
        definition, declared = spec.get("template") or {}, ()
    try:
        values = fill_parameters(declared, spec.get("parameters") or {})
        values["loft"] = {"name": metadata["name"], "project": project_of(metadata["namespace"])}
        wanted = Wanted(render(definition.get("spec") or {}, values))
    except TemplateError as error:
        raise TemplateError("BuildApplicationFailed", error.message) from error
    if not wanted.sources:
        raise TemplateError("BuildApplicationFailed", "the application has no source")
    return wanted
