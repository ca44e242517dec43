"""What an installation offers: the models of the catalog that its Site may run. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from provisioner.catalog.catalog import Catalog
from provisioner.catalog.model import Model
from provisioner.catalog.site import Site


def offered_models(catalog: Catalog, site: Site) -> Mapping[str, Model]:
    """The models by id whose profile, runtime and image the Site allows, without archived ones."""
    return {
        model_id: model
        for model_id, model in sorted(catalog.models.items())
        if model_id not in catalog.archived
        and is_in_default_catalog(model, site)
        and site.allows_runtime(catalog.runtimes[model.master.runtime])
        and not site.is_retired(catalog.versions.image(model.master.image) or "")
    }


def is_in_default_catalog(model: Model, site: Site) -> bool:
    """Whether the model is meant for sites like this one."""
    return site.profile in model.profiles or (site.sovereign and "sovereign" in model.profiles)
