"""Endpoint pickers of InferencePools: the port where they listen, their plug-ins, their rights, and who names a pool.

Source: the guides of the Gateway API Inference Extension and of llm-d.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.selectors import selected
from provisioner.lint.joins.services import services
from provisioner.lint.joins.slips import meant
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.routing._routes import backends, routes, shown
from provisioner.lint.values import has_hole, items, literal, look, text, whole
from provisioner.lint.world import Container, Object, PodTemplate, World, same_namespace
from provisioner.lint.yaml_text import parse_documents

_GROUPS = ("inference.networking.k8s.io", "inference.networking.x-k8s.io")
_PICKER = "endpointPickerRef"
_LISTENS = re.compile(r"^--?grpc-?[pP]ort(?:=(\d{1,5}))?$")
_DEFAULT_PORT = 9002
_POOL = re.compile(r"^--?pool-?[nN]ame\b")
_KNOWN_PLUGINS = (
    *("queue-scorer", "kv-cache-utilization-scorer", "prefix-cache-scorer", "lora-affinity-scorer"),
    *("running-requests-size-scorer", "max-score-picker", "random-picker", "weighted-random-picker"),
    *("single-profile-handler", "pd-profile-handler", "decode-filter", "prefill-filter", "by-label-selector"),
    *("load-aware-scorer", "session-affinity-scorer", "precise-prefix-cache-scorer", "active-request-scorer"),
    *("prefill-header-handler", "no-hit-lru-scorer", "context-length-aware", "slo-aware-routing"),
)


@rule("inference-pool-group-differs", Severity.ERROR)
def inference_pool_group_differs(world: World) -> Iterator[Hit]:
    """A route leads to an InferencePool of one API group, and the pool is of the other.

    The pool moved from `inference.networking.x-k8s.io` to `inference.networking.k8s.io` with version v1; both may be
    installed, and they are two kinds. The route gets ResolvedRefs False, and each request is answered with 500.
    """
    for route in routes(world):
        for reference in backends(route):
            group, name = reference.value.get("group"), reference.name
            if reference.value.get("kind") != "InferencePool" or group not in _GROUPS or name is None:
                continue
            pools = shown(world).named("InferencePool", name)
            near = [pool for pool in pools if same_namespace(pool.namespace, reference.namespace)]
            if near and all(pool.group != group for pool in near):
                message = f"routing to InferencePool `{name}`: the pool is not of group `{group}`"
                path = (*reference.path, "group")
                yield Hit(at=route, path=path, message=message, fix=f"write `group: {near[0].group}`")


def _listening(container: Container) -> int | None:
    """The port where a picker answers the gateway, None for a container that is none or hides it."""
    words = [str(item) for part in ("command", "args") for _, item in items(container.value, part)]
    if not any(_POOL.match(word) for word in words) or any(has_hole(word) for word in words):
        return None
    for position, word in enumerate(words):
        found = _LISTENS.match(word)
        if found is not None:
            following = words[position + 1] if position + 1 < len(words) else ""
            told = found[1] or following
            return int(told) if told.isascii() and told.isdigit() and len(told) < 6 else None
    return _DEFAULT_PORT


@rule("picker-listens-elsewhere", Severity.ERROR)
def picker_listens_elsewhere(world: World) -> Iterator[Hit]:
    """An endpoint picker does not listen where its InferencePool asks for it.

    The pool names the picker's Service and a port of it; behind that is `--grpc-port` of the picker, 9002 where nobody
    says otherwise. The gateway reaches nobody, and requests are refused or go anywhere, as `failureMode` says.
    """
    for pool in world.of_kind("InferencePool"):
        reference = look(pool.value, "spec", _PICKER)
        name, port = literal(reference, "name"), whole(reference, "port", "number")
        port = whole(reference, "portNumber") if port is None else port
        service = shown(world).find("Service", name, pool.namespace) if name else None
        if service is None or port is None:
            continue
        given = [(path, item) for path, item in items(service.value, "spec", "ports")]
        numbers = [whole(item, "port") for _, item in given]
        if given and None not in numbers and port not in numbers:
            message = f"picking endpoints: Service {name} has no port `{port}`"
            fix = f"write one of: {', '.join(map(str, numbers))}"
            yield Hit(at=pool, path=("spec", _PICKER, "port"), message=message, fix=fix)
        for path, item in given:
            if whole(item, "port") == port:
                yield from _misled(world, service, path, item)


def _misled(world: World, service: Object, path: FieldPath, item: Any) -> Iterator[Hit]:
    target = look(item, "targetPort") or look(item, "port")
    chosen = next((chosen for found, chosen in services(world) if found is service), None)
    for pod in selected(world, chosen, service.namespace) if chosen else ():
        for container in pod.containers:
            listening = _listening(container)
            named = {text(one, "name"): whole(one, "containerPort") for _, one in items(container.value, "ports")}
            number = target if isinstance(target, int) else named.get(str(target))
            if listening is not None and number is not None and number != listening:
                message = f"picking endpoints: {pod.owner.title} listens on {listening}, not on `{number}`"
                yield Hit(at=service, path=path, message=message, fix=f"lead to {listening}, or change --grpc-port")


def _pickers(world: World) -> Iterator[tuple[PodTemplate, Container]]:
    for pod in world.pods if world.has("InferencePool") else ():
        for container in pod.containers:
            if _listening(container) is not None:
                yield pod, container


@rule("picker-may-not-read", Severity.ERROR)
def picker_may_not_read(world: World) -> Iterator[Hit]:
    """An endpoint picker may not watch the pods or the pools that it is to choose from.

    It needs get, list and watch on pods and on InferencePools; without them its caches never fill, it never becomes
    ready, and the gateway has nobody to ask. Said where the folder shows all roles that its account is bound to.
    """
    for pod, _ in _pickers(world):
        account = text(pod.spec, "serviceAccountName") or "default"
        roles = _roles(world, account, pod.namespace)
        if roles is None and account == "default" and _grants_others(world, pod.namespace):
            message = "picking endpoints: the account `default` may not read pods and pools, another may"
            path = (*pod.path, "spec")
            yield Hit(at=pod.owner, path=path, message=message, fix="set serviceAccountName")
        for resource in ("pods", "inferencepools") if roles else ():
            granted = _verbs(roles or (), resource)
            lacks = [verb for verb in ("get", "list", "watch") if verb not in granted and "*" not in granted]
            if lacks:
                message = f"picking endpoints: `{account}` may not {', '.join(lacks)} {resource}"
                path = pod.at("serviceAccountName")
                yield Hit(at=pod.owner, path=path, message=message, fix="grant get, list and watch in its Role")


def _roles(world: World, account: str, namespace: str | None) -> tuple[Object, ...] | None:
    """The roles that a service account is bound to, None where one is not shown or there is none."""
    found: list[Object] = []
    for binding in world.of_kind("RoleBinding", "ClusterRoleBinding"):
        if not any(
            text(item, "kind") == "ServiceAccount" and text(item, "name") == account
            for _, item in items(binding.value, "subjects")
        ):
            continue
        kind, name = text(binding.value, "roleRef", "kind") or "", text(binding.value, "roleRef", "name") or ""
        role = world.find(kind, name, namespace=namespace if kind == "Role" else None)
        if role is None or look(role.value, "aggregationRule") is not None:
            return None
        found.append(role)
    return tuple(found) or None


def _grants_others(world: World, namespace: str | None) -> bool:
    """Whether accounts of a namespace are bound to a role about pools, and the default one is not among them."""
    names: set[str | None] = set()
    for binding in world.of_kind("RoleBinding", "ClusterRoleBinding"):
        role = world.find("Role", text(binding.value, "roleRef", "name") or "", namespace=namespace)
        if role is not None and _verbs((role,), "inferencepools"):
            names |= {text(item, "name") for _, item in items(binding.value, "subjects")}
    return bool(names) and "default" not in names


def _verbs(roles: tuple[Object, ...], resource: str) -> set[str]:
    granted: set[str] = set()
    for role in roles:
        for _, one in items(role.value, "rules"):
            named = [str(item) for _, item in items(one, "resources")]
            if resource in named or "*" in named:
                granted |= {str(verb) for _, verb in items(one, "verbs")}
    return granted


@rule("picker-plugin-unknown", Severity.ERROR)
def picker_plugin_unknown(world: World) -> Iterator[Hit]:
    """The configuration of an endpoint picker uses a plug-in that it does not list, or one with a slip in its type.

    `pluginRef` is the `name` of an entry of `plugins`, or its `type` where it has no name. The picker ends while it
    reads its configuration.
    """
    for found in world.of_kind("ConfigMap"):
        data = look(found.value, "data")
        for key, written in data.items() if isinstance(data, Mapping) else ():
            if isinstance(written, str) and "EndpointPickerConfig" in written and not has_hole(written):
                for message, fix in _plugin_faults(written, found.file):
                    message = f"reading EndpointPickerConfig: {message}"
                    yield Hit(at=found, path=("data", str(key)), message=message, fix=fix)


def _plugin_faults(written: str, file: str) -> Iterator[tuple[str, str]]:
    documents = list(parse_documents(written, file=file))
    value = documents[0].value if len(documents) == 1 else None
    names: list[str] = []
    for _, plugin in items(value, "plugins"):
        kind = text(plugin, "type") or ""
        names.append(text(plugin, "name") or kind)
        near = meant(kind, _KNOWN_PLUGINS) if kind not in _KNOWN_PLUGINS else None
        if near is not None:
            yield f"there is no plug-in of type `{kind}`", f"did you mean {near}?"
    for _, profile in items(value, "schedulingProfiles"):
        for _, used in items(profile, "plugins"):
            name = text(used, "pluginRef")
            if name is not None and name not in names:
                near = nearest_name(name, names)
                fix = f"did you mean {near}?" if near else "list it under plugins"
                yield f"no plug-in is called `{name}`", fix


@rule("inference-objective-without-pool", Severity.ERROR)
def inference_objective_without_pool(world: World) -> Iterator[Hit]:
    """An InferenceObjective or InferenceModel is for an InferencePool that its namespace does not have.

    It does nothing: requests get the pool's own priority. Said where the folder holds pools of that namespace.
    """
    for found in world.of_kind("InferenceObjective", "InferenceModel"):
        name = literal(found.value, "spec", "poolRef", "name")
        pools = [pool for pool in world.of_kind("InferencePool") if same_namespace(pool.namespace, found.namespace)]
        names = [pool.name for pool in pools]
        if name and names and name not in names:
            near = nearest_name(name, names)
            message = f"ordering requests: the namespace has no InferencePool `{name}`"
            fix = f"did you mean {near}?" if near else f"write one of: {', '.join(names)}"
            yield Hit(at=found, path=("spec", "poolRef", "name"), message=message, fix=fix)


_HEALTH = re.compile(r"^--?grpc-?[hH]ealth-?[pP]ort(?:=(\d{1,5}))?$")
_HEALTH_PORT = 9003


@rule("picker-probe-on-other-port", Severity.ERROR)
def picker_probe_on_other_port(world: World) -> Iterator[Hit]:
    """A probe asks an endpoint picker for its health at a port where it does not answer.

    gRPC health is answered at `--grpc-health-port`, 9003 where nobody says otherwise. The picker never becomes ready.
    """
    for pod, container in _pickers(world):
        words = [str(item) for part in ("command", "args") for _, item in items(container.value, part)]
        port = _HEALTH_PORT
        for position, word in enumerate(words):
            found = _HEALTH.match(word)
            told = (found[1] or "".join(words[position + 1 : position + 2])) if found else ""
            port = int(told) if told.isascii() and told.isdigit() and len(told) < 6 else port
        for name in ("startupProbe", "readinessProbe", "livenessProbe"):
            asked = whole(container.value, name, "grpc", "port")
            if asked is not None and asked != port:
                message = f"reading {name}: the picker answers for its health on {port}, not on `{asked}`"
                path = (*container.path, name, "grpc", "port")
                yield Hit(at=pod.owner, path=path, message=message, fix=f"write {port}, or change --grpc-health-port")


_SPACE = re.compile(r"^--?pool-?[nN]amespace(?:=(\S+))?$")


@rule("picker-in-other-namespace", Severity.ERROR)
def picker_in_other_namespace(world: World) -> Iterator[Hit]:
    """An endpoint picker looks for its InferencePool in another namespace than its own, where the pool is not.

    It never becomes ready, and the gateway has nobody to ask.
    """
    spaces = {pool.namespace for pool in world.of_kind("InferencePool")}
    for pod, container in _pickers(world):
        words = [str(item) for part in ("command", "args") for _, item in items(container.value, part)]
        for position, word in enumerate(words):
            found = _SPACE.match(word)
            told = (found[1] or "".join(words[position + 1 : position + 2])) if found else ""
            is_known = told and "$" not in told and None not in spaces
            if is_known and told not in spaces and pod.namespace in spaces:
                message = f"picking endpoints: there is no InferencePool in namespace `{told}`"
                yield Hit(at=pod.owner, path=container.path, message=message, fix=f"write {pod.namespace}")
