"""The kubelet by itself: what it does when it looks at a pod, whenever that is."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

from provisioner.embedded.children import Children
from provisioner.embedded.controllers.api import open_session
from provisioner.embedded.controllers.kinds import POD
from provisioner.embedded.controllers.loop import Cluster, Key
from provisioner.embedded.controllers.workload.kubelet import Kubelet
from provisioner.embedded.faults import Faults
from tests.contract.embedded_cluster import CLOCK, STUB, open_tenant, pod_template


async def test_pod_that_comes_back_under_its_name_leaves_no_process(tmp_path: Path) -> None:
    """A StatefulSet makes the next one before the kubelet has looked."""
    key, children = Key("default", "one-0"), Children(tmp_path / "pods")
    template = pod_template()
    metadata = {**template["metadata"], "name": key.name, "namespace": key.namespace}
    pod = {"apiVersion": "v1", "kind": "Pod", **template, "metadata": metadata}
    pod["spec"] = {**template["spec"], "nodeName": "gpu-1"}
    async with AsyncExitStack() as stack:
        stack.push_async_callback(children.end_all, grace_seconds=1.0)
        session = await stack.enter_async_context(open_session())
        api = (await stack.enter_async_context(open_tenant(tmp_path / "state"))).control_plane
        kubelet = Kubelet(
            clock=CLOCK, children=children, engines=STUB, models=tmp_path, faults=Faults(), session=session
        )
        for _ in range(2):
            made = await api.create(POD, pod)
            await kubelet.reconcile(Cluster(api, api), key)
            assert children.names() == [f"control-plane/{made['metadata']['uid']}"]
            await api.delete(POD, key.name, namespace=key.namespace, grace_seconds=0)
