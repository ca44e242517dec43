"""Plain Jinja and a YAML parser over the same templates: what compiled output is held against.

Tests compare results with it, the benchmark compares speed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from provisioner.catalog.catalog import Catalog
from provisioner.catalog.pack import pack_root
from provisioner.catalog.site import Site
from provisioner.domain.plan import EndpointPlan
from provisioner.rendering.arguments import server_arguments
from provisioner.rendering.compiler import SlotValue
from provisioner.rendering.environment import WHITESPACE, hole
from provisioner.rendering.slots import escaped
from provisioner.rendering.values import replica_values, runtime_values

Object = dict[str, Any]


def plain_environment() -> Environment:
    """Jinja as everybody knows it, over the shipped pack."""
    environment = Environment(
        loader=FileSystemLoader(pack_root()), undefined=StrictUndefined, autoescape=False, **WHITESPACE
    )
    environment.globals["hole"] = hole
    return environment


def plain_objects(
    environment: Environment, template: str, *, constants: Mapping[str, Any], values: Mapping[str, SlotValue]
) -> list[Object]:
    """Render one template with values printed as they stand between double quotes, and parse what comes out."""
    printed = {name: _printed(value) for name, value in values.items()}
    text = environment.get_template(template).render({**constants, **printed})
    return [found for found in yaml.load_all(text, Loader=yaml.CSafeLoader) if found is not None]


def _printed(value: SlotValue) -> int | str | list[str]:
    if isinstance(value, int):
        return value
    return escaped(value) if isinstance(value, str) else [escaped(item) for item in value]


class RuntimeTemplates:
    """The templates of one plan's runtime, by name, with the constants they see."""

    def __init__(self, catalog: Catalog, site: Site, plan: EndpointPlan) -> None:
        self.runtime = catalog.runtimes[plan.runtime.runtime]
        self.constants = {
            **self.runtime.options,
            "gpu_resource": plan.capacity.gpu_resource,
            "runtime": self.runtime,
            "site": site,
            "tier": catalog.tiers[plan.tier],
        }
        self.endpoint, self.replica = self._names("endpoint"), self._names("replica")

    def _names(self, part: str) -> list[str]:
        found: dict[str, str] = {}
        for owner in ("_shared", self.runtime.name):
            folder = f"applications/runtimes/{owner}/{part}"
            found |= {path.name: f"{folder}/{path.name}" for path in (pack_root() / folder).glob("*.yaml.j2")}
        return [found[name] for name in sorted(found)]

    def plain_objects(self, environment: Environment, plan: EndpointPlan) -> list[Object]:
        """Every object of a plan, the plain way."""
        arguments = server_arguments(plan.runtime, self.runtime)
        values = runtime_values(plan, arguments=arguments)
        objects = [
            found
            for name in self.endpoint
            for found in plain_objects(environment, name, constants=self.constants, values=values)
        ]
        for ordinal in range(plan.runtime.max_replicas):
            for name in self.replica:
                objects += plain_objects(
                    environment, name, constants=self.constants, values=replica_values(plan, ordinal)
                )
        return objects
