"""The one list of what runs workloads in a tenant cluster; the plane starts it."""

from __future__ import annotations

from collections.abc import Sequence

from provisioner.embedded.controllers.loop import Controller
from provisioner.embedded.controllers.workload.deployment import deployment_controllers
from provisioner.embedded.controllers.workload.job import job_controller
from provisioner.embedded.controllers.workload.kubelet import Kubelet
from provisioner.embedded.controllers.workload.scheduling import scheduler
from provisioner.embedded.controllers.workload.stateful_set import stateful_set_controller


def workload_controllers(kubelet: Kubelet) -> Sequence[Controller]:
    """Everything between a workload object and its processes, for every tenant cluster."""
    return (
        stateful_set_controller(),
        *deployment_controllers(clock=kubelet.clock),
        job_controller(engines=kubelet.engines, clock=kubelet.clock),
        scheduler(clock=kubelet.clock),
        kubelet.tenant_controller(),
    )
