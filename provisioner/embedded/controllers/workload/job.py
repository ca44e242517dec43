"""Jobs, as far as a laptop can run them: one pod at a time until one succeeds or the back-off limit is reached.

A job whose image does not run here fails at once and says so; it would be a lie to call it complete, and nobody could
ever end its waiting.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

from provisioner.domain.clock import Clock
from provisioner.embedded.controllers.api import Json
from provisioner.embedded.controllers.conditions import Condition, timestamp, write_conditions
from provisioner.embedded.controllers.core.kinds import JOB
from provisioner.embedded.controllers.kinds import POD
from provisioner.embedded.controllers.loop import Cluster, Controller, Key, Watch, is_true, owner_keys
from provisioner.embedded.controllers.workload.pods import list_owned, new_pod


def job_controller(*, runs: Callable[[str], bool], clock: Clock) -> Controller:
    """The controller of Jobs; `runs` tells whether an image does here."""
    return Controller("jobs", (Watch(JOB), Watch(POD, keys=owner_keys("Job"))), _Jobs(runs, clock).reconcile)


@dataclass(frozen=True, slots=True)
class _Jobs:
    runs: Callable[[str], bool]
    clock: Clock

    async def reconcile(self, cluster: Cluster, key: Key) -> float | None:
        found = await cluster.api.get(JOB, key.name, namespace=key.namespace)
        if found is None or "deletionTimestamp" in found["metadata"] or _is_over(found):
            return None
        pods = await list_owned(cluster.api, POD, found)
        phases = [(pod.get("status") or {}).get("phase") for pod in pods]
        succeeded, failed = phases.count("Succeeded"), phases.count("Failed")
        active = len(phases) - succeeded - failed
        outcome = self._outcome(found, succeeded, failed)
        if outcome is None and active == 0 and not found["spec"].get("suspend"):
            labels = {"batch.kubernetes.io/job-name": key.name, "job-name": key.name}
            pod = new_pod(JOB, found, labels=labels, metadata={"generateName": f"{key.name}-"})
            await cluster.api.create(POD, pod)
            active = 1
        now = self.clock.now()
        fields: Json = {"active": active, "succeeded": succeeded, "failed": failed}
        fields["startTime"] = (found.get("status") or {}).get("startTime") or timestamp(now)
        if outcome is not None and outcome.type == "Complete":
            fields["completionTime"] = timestamp(now)
        await write_conditions(cluster.api, JOB, found, _conditions(outcome), now=now, **fields)
        return None

    def _outcome(self, found: Json, succeeded: int, failed: int) -> Condition | None:
        image = found["spec"]["template"]["spec"]["containers"][0]["image"]
        if not self.runs(image):
            return Condition("Failed", met=True, reason="NoLocalEngine", message=f"no local engine stands for: {image}")
        if succeeded >= found["spec"].get("completions", 1):
            return Condition("Complete", met=True, reason="CompletionsReached")
        if failed > found["spec"].get("backoffLimit", 6):
            return Condition("Failed", met=True, reason="BackoffLimitExceeded", message=f"pods that failed: {failed}")
        return None


def _conditions(outcome: Condition | None) -> tuple[Condition, ...]:
    """An outcome with the condition that a real API server wants to stand before it."""
    if outcome is None:
        return ()
    before = "SuccessCriteriaMet" if outcome.type == "Complete" else "FailureTarget"
    return (dataclasses.replace(outcome, type=before), outcome)


def _is_over(found: Json) -> bool:
    return is_true(found, "Complete") or is_true(found, "Failed")
