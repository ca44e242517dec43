"""Plain Jinja and a YAML parser over the same templates: what compiled output is held against.

Tests compare results with it, the benchmark compares speed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from provisioner.catalog.catalog import Catalog
from provisioner.catalog.pack import PackFiles, pack_root
from provisioner.catalog.site import Site
from provisioner.domain.plan import EndpointPlan
from provisioner.rendering.compiler import SlotValue
from provisioner.rendering.environment import WHITESPACE, hole
from provisioner.rendering.groups import runtime_groups
from provisioner.rendering.pack import group_constants, template_names
from provisioner.rendering.slots import escaped

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
    """The templates of one plan's tree, by name, each with its group and the constants it sees."""

    def __init__(self, catalog: Catalog, site: Site, plan: EndpointPlan) -> None:
        tier, runtime = catalog.tiers[plan.tier], catalog.runtimes[plan.runtime.runtime]
        files = PackFiles((pack_root(),))
        self.used = [
            (name, group, group_constants(group, site=site, tier=tier, runtime=runtime))
            for group in runtime_groups(plan, tier=tier, runtime=runtime, site=site)
            for name in template_names(files, group.part, runtime)
        ]

    def plain_objects(self, environment: Environment) -> list[Object]:
        """Every object of the plan, the plain way."""
        return [
            found
            for name, group, constants in self.used
            for values in group.fillings
            for found in plain_objects(environment, name, constants=constants, values=values)
        ]
