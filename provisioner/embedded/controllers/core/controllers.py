"""The one list of core loops; the plane starts it over the control plane cluster and over every tenant cluster."""

from __future__ import annotations

from collections.abc import Sequence

from provisioner.domain.clock import Clock
from provisioner.embedded.controllers.core.endpoints import endpoints_controller
from provisioner.embedded.controllers.core.garbage import garbage_controller
from provisioner.embedded.controllers.core.load_balancer import load_balancer_controller
from provisioner.embedded.controllers.core.namespace import namespace_controller
from provisioner.embedded.controllers.core.quota import quota_controller
from provisioner.embedded.controllers.core.volume import volume_controller
from provisioner.embedded.controllers.loop import Controller


def core_controllers(*, clock: Clock, every_kind: bool) -> Sequence[Controller]:
    """Endpoints, load balancers' addresses, garbage collection, namespace removal, quota status, bound volume claims.
    `every_kind` has garbage of every kind collected, as in a control plane cluster."""
    return (
        endpoints_controller(),
        load_balancer_controller(),
        garbage_controller(every_kind=every_kind),
        namespace_controller(clock=clock),
        quota_controller(),
        volume_controller(),
    )
