"""What a tenant's containers may do to their node and cluster."""

from __future__ import annotations

from collections.abc import Iterator

from provisioner.catalog.fields import shown
from provisioner.domain.finding import Severity
from provisioner.lint.joins.pods import every_pod, is_node_agent, may_hold_tenants
from provisioner.lint.joins.quantities import accelerators
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import items, look, mapping, text
from provisioner.lint.world import PodTemplate, World

_DANGEROUS = frozenset(
    ["ALL", "SYS_ADMIN", "NET_ADMIN", "SYS_PTRACE", "SYS_MODULE", "DAC_READ_SEARCH", "BPF", "NET_RAW"]
)


def _tenant_pods(world: World) -> Iterator[PodTemplate]:
    for pod in every_pod(world):
        if may_hold_tenants(pod.namespace) and not is_node_agent(pod):
            yield pod


@rule("container-privileged", Severity.WARNING)
def container_privileged(world: World) -> Iterator[Hit]:
    """A tenant's container is privileged: it is root on its node, with every device and every other tenant's memory.

    GPUs do not need it, the device plugin hands them in; InfiniBand needs the capability IPC_LOCK only.
    """
    for pod in _tenant_pods(world):
        for container in pod.containers:
            if look(container.value, "securityContext", "privileged") is True:
                path = (*container.path, "securityContext", "privileged")
                message = f"isolating container: it is privileged: {shown(container.name)}"
                fix = "leave privileged out; add single capabilities where a program really needs one"
                yield Hit(at=pod.owner, path=path, message=message, fix=fix)


@rule("container-capability-dangerous", Severity.WARNING)
def container_capability_dangerous(world: World) -> Iterator[Hit]:
    """A tenant's container adds a capability that reaches beyond the container, such as SYS_ADMIN or NET_ADMIN.

    SYS_ADMIN alone is enough to leave a container; NET_ADMIN and NET_RAW change or read the network of neighbours.
    Pod Security `baseline` refuses them.
    """
    for pod in _tenant_pods(world):
        for container in pod.containers:
            for path, item in items(container.value, "securityContext", "capabilities", "add"):
                if isinstance(item, str) and item.removeprefix("CAP_") in _DANGEROUS:
                    message = f"isolating container: capability reaches beyond it: {shown(item)}"
                    fix = "leave it out; IPC_LOCK is enough for pinned memory and RDMA"
                    yield Hit(at=pod.owner, path=(*container.path, *path), message=message, fix=fix)


@rule("host-path-mounted", Severity.WARNING)
def host_path_mounted(world: World) -> Iterator[Hit]:
    """A tenant's pod mounts a folder of its node: what it writes there outlives it and is seen by the next tenant.

    The pod also depends on a folder that some nodes lack. Local disks are better reached as a local PersistentVolume
    or an ephemeral volume of a storage class.
    """
    for pod in _tenant_pods(world):
        for path, item in items(pod.spec, "volumes"):
            place = text(item, "hostPath", "path")
            if place is not None:
                message = f"isolating pod: it mounts a folder of the node: {shown(place)}"
                fix = "use a claim on a local or network storage class, or emptyDir"
                yield Hit(at=pod.owner, path=pod.at(*path, "hostPath"), message=message, fix=fix)


@rule("host-namespace-shared", Severity.WARNING)
def host_namespace_shared(world: World) -> Iterator[Hit]:
    """A tenant's pod shares the node's network, processes or IPC; network policies do not apply to host networking.

    hostPID and hostIPC show the processes and shared memory of every pod of the node. Node agents in DaemonSets and
    system namespaces are left out.
    """
    for pod in _tenant_pods(world):
        for name in ("hostNetwork", "hostPID", "hostIPC"):
            if pod.spec.get(name) is True:
                message = f"isolating pod: it shares a namespace of the node: {shown(name)}"
                fix = f"leave {name} out; for RDMA use a secondary network"
                yield Hit(at=pod.owner, path=pod.at(name), message=message, fix=fix)


@rule("host-port-used", Severity.WARNING)
def host_port_used(world: World) -> Iterator[Hit]:
    """A tenant's container takes a port of its node.

    Only one such pod fits on a node, and the port is open to the node's network.
    """
    for pod in _tenant_pods(world):
        for container in pod.containers:
            for path, item in items(container.value, "ports"):
                port = look(item, "hostPort")
                if isinstance(port, int) and port > 0 and not pod.spec.get("hostNetwork"):
                    message = f"opening port: it takes a port of the node: {shown(str(port))}"
                    fix = "leave hostPort out and reach the pod through a Service"
                    yield Hit(at=pod.owner, path=(*container.path, *path, "hostPort"), message=message, fix=fix)


@rule("service-account-token-mounted", Severity.INFO)
def service_account_token_mounted(world: World) -> Iterator[Hit]:
    """A model server gets a token for the Kubernetes API that it has no use for.

    Model code, adapters and prompts run beside it. Neither the pod nor its ServiceAccount says
    `automountServiceAccountToken: false`.
    """
    for pod in _tenant_pods(world):
        if not accelerators(pod) or look(pod.spec, "automountServiceAccountToken") is not None:
            continue
        name = text(pod.spec, "serviceAccountName") or "default"
        account = world.find("ServiceAccount", name, namespace=pod.namespace)
        if account is None or look(account.value, "automountServiceAccountToken") is not False:
            message = f"isolating pod: it gets an API token of service account {shown(name)}"
            fix = "set automountServiceAccountToken: false in the pod"
            yield Hit(at=pod.owner, path=pod.at(), message=message, fix=fix)


_BREAKING = (
    ("vllm", "vllm"),
    ("vllm", "vllm-dp-master"),
    ("vllm", "vllm-nixl-side-channel"),
    ("sglang", "sglang"),
    ("infinity", "infinity"),
    ("nvcr.io/nim/", "nim-server"),
    ("nvcr.io/nim/", "nim-http-api"),
)
"""What tells an engine, and the Service whose port variable it takes for its own setting."""


@rule("service-links-break-engine", Severity.ERROR)
def service_links_break_engine(world: World) -> Iterator[Hit]:
    """A Service's name makes Kubernetes set an environment variable that the engine takes for its own setting.

    For a Service `vllm` every pod of the namespace gets `VLLM_PORT=tcp://…`, and vLLM, which expects a number there,
    stops at start-up (vLLM documentation, "Environment variables"; vllm-project/vllm#34199). SGLang reads SGLANG_PORT
    likewise, Infinity INFINITY_PORT, NIM NIM_SERVER_PORT. Headless Services set no variables.
    """
    for pod in every_pod(world):
        if pod.spec.get("enableServiceLinks") is False:
            continue
        for container in pod.containers:
            words = " ".join((container.image, *container.arguments)).lower()
            for engine, name in _BREAKING:
                service = world.find("Service", name, namespace=pod.namespace)
                variable = f"{name.upper().replace('-', '_')}_PORT"
                own = {text(item, "name") for _, item in items(container.value, "env")}
                if service and engine in words and variable not in own and _has_address(service.value):
                    what = f"makes Kubernetes set {variable}=tcp://… in {pod.owner.title}"
                    fix = "rename the Service, or set enableServiceLinks: false in the pod"
                    yield Hit(
                        at=service, path=("metadata", "name"), message=f"naming service: {shown(name)} {what}", fix=fix
                    )


def _has_address(service: object) -> bool:
    spec = mapping(service, "spec")
    return spec.get("clusterIP") != "None" and spec.get("type") != "ExternalName"
