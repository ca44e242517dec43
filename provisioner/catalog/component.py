"""A component: what every tenant cluster of a tier runs beside the model server. One folder each under
`applications/stack/`, with the Helm source beside this description. Names, needs and order are checked in `tiers`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from provisioner.catalog.entry import Entry

Role = Literal[
    "operator",
    "scheduler",
    "network",
    "gateway",
    "metrics",
    "scaler",
    "secrets",
    "certificates",
    "workload",
    "isolation",
]


class Component(Entry):
    """One component, installed by one Helm chart of the gpu-stack Application."""

    description: str
    name: str
    role: Annotated[Role, Field(description="what part it plays; two of one role are refused where only one may act")]
    chart: Annotated[str, Field(description="key of its version in versions.yaml")]
    licence: Annotated[str, Field(description="SPDX identifier, or `proprietary`")]
    min_kubernetes: Annotated[str, Field(pattern=r"^1\.\d{2}$", description="oldest Kubernetes that its chart takes")]
    namespace: Annotated[str, Field(description="where it runs; all of a stack share the Application's")] = (
        "tenantry-stack"
    )
    runs_on: Annotated[
        Literal["control-plane", "nodes", "every-node", "gpu-nodes"], Field(description="where its pods go")
    ]
    provides: Annotated[
        tuple[str, ...],
        Field(description="what it brings: `<kind>.<group>` of custom resources, or a name such as `device-plugin`"),
    ] = ()
    needs: Annotated[
        tuple[str, ...], Field(description="what must stand before it in the stack, by what is provided")
    ] = ()
    excludes: Annotated[
        tuple[str, ...], Field(description="components that do the same thing and may not stand beside it")
    ] = ()
    enforces_network_policy: Annotated[
        bool, Field(description="whether it is a CNI that drops what policies do not allow")
    ] = False
