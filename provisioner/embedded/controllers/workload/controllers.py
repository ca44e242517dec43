"""The two lists of what runs workloads: as processes in tenant clusters, pretended in the control plane cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from provisioner.domain.clock import Clock
from provisioner.embedded.controllers.loop import Controller
from provisioner.embedded.controllers.workload.autoscaler import autoscaler_controller
from provisioner.embedded.controllers.workload.budget import budget_controller
from provisioner.embedded.controllers.workload.daemon_set import daemon_set_controller
from provisioner.embedded.controllers.workload.deployment import deployment_controllers
from provisioner.embedded.controllers.workload.job import job_controller
from provisioner.embedded.controllers.workload.kubelet import Kubelet
from provisioner.embedded.controllers.workload.scheduling import scheduler
from provisioner.embedded.controllers.workload.stand_in import stand_in_controller
from provisioner.embedded.controllers.workload.stateful_set import stateful_set_controller
from provisioner.embedded.engines.engine import find_engine


def workload_controllers(kubelet: Kubelet) -> Sequence[Controller]:
    """Everything between a workload object and its processes, for every tenant cluster."""

    def runs(image: str) -> bool:
        return find_engine(kubelet.engines, image) is not None

    return (*_owners(runs, kubelet.clock), kubelet.tenant_controller())


def pretended_controllers(*, clock: Clock) -> Sequence[Controller]:
    """The same for the control plane cluster, on the pretended node alone."""
    return (*_owners(lambda _: True, clock), stand_in_controller(clock=clock))


def _owners(runs: Callable[[str], bool], clock: Clock) -> Sequence[Controller]:
    return (
        stateful_set_controller(),
        *deployment_controllers(clock=clock),
        daemon_set_controller(),
        job_controller(runs=runs, clock=clock),
        scheduler(clock=clock),
        budget_controller(clock=clock),
        autoscaler_controller(clock=clock),
    )
