"""Routers that look for engines by the labels of their pods: whether there are any, and whether they may look.

Sources: the arguments of vLLM's production stack (`--k8s-label-selector`) and of SGLang's router (`--selector`, and
its two for prefill and decode).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from provisioner.catalog.fields import FieldPath, shown
from provisioner.domain.finding import Severity
from provisioner.lint.command_line import command_line
from provisioner.lint.joins.pods import mentions, ports
from provisioner.lint.joins.selectors import Selector, nothing_selected, selected
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, items, literal, text
from provisioner.lint.world import Container, Object, PodTemplate, World

_LABEL_FLAGS = ("--k8s-label-selector", "--selector", "--prefill-selector", "--decode-selector")
_PORT_FLAGS = ("--service-discovery-port",)
_NAMESPACE_FLAGS = ("--k8s-namespace", "--service-discovery-namespace")
_PAIR = re.compile(r"([\w./-]+)={1,2}([\w.-]+)")
_WANTED = ("list", "watch")


def _flag(container: Container, names: tuple[str, ...]) -> tuple[FieldPath, list[str | None]] | None:
    """Where the first of some flags gets its value, and the words of it; None for a word that is not known."""
    words, _ = command_line(container)
    for position, word in enumerate(words):
        name, equals, value = (word.text or "").partition("=")
        if name not in names:
            continue
        if equals:
            return word.path, [value]
        found = []
        for following in words[position + 1 :]:
            if (following.text or "").startswith("-"):
                break
            found.append(following)
        return (found[0].path if found else word.path), [one.text for one in found]
    return None


def _routers(world: World) -> Iterator[tuple[PodTemplate, FieldPath, Selector]]:
    """Pods that look for others in their own namespace: where it is said by which labels, and these."""
    for pod in world.pods:
        for container in pod.containers:
            is_router = "--service-discovery" in container.arguments and _is_at_home(pod, container)
            for name in _LABEL_FLAGS if is_router else ():
                flag = _flag(container, (name,))
                words = [part for word in flag[1] for part in (word or "{{").split(",")] if flag else []
                pairs = [_PAIR.fullmatch(word) for word in words if word]
                if flag is not None and pairs and None not in pairs:
                    yield pod, flag[0], Selector({pair[1]: pair[2] for pair in pairs if pair})


def _is_at_home(pod: PodTemplate, container: Container) -> bool:
    """Whether it looks in the pod's own namespace, as far as that is known."""
    flag = _flag(container, _NAMESPACE_FLAGS)
    name = flag[1][0] if flag and flag[1] else None
    return flag is None or name is None or has_hole(name) or pod.namespace in (None, name)


@rule("discovery-selects-nothing", Severity.ERROR)
def discovery_selects_nothing(world: World) -> Iterator[Hit]:
    """A router looks for engines by labels that no pod of its namespace has.

    It starts, finds no backend, and answers every request with 503 or `no available endpoints`.
    """
    for pod, path, found in _routers(world):
        why = nothing_selected(world, found, pod.owner)
        if why:
            message = f"looking for engines: {why[0]}: {shown(str(found))}"
            yield Hit(at=pod.owner, path=path, message=message, fix=why[1])


@rule("discovery-port-closed", Severity.ERROR)
def discovery_port_closed(world: World) -> Iterator[Hit]:
    """A router asks the engines that it finds at a port that none of them opens.

    Every engine counts as unhealthy, and each request is answered with 503. The port is the engine's, not the router's.
    """
    for pod, _, found in _routers(world):
        pods = [one for one in selected(world, found, pod.namespace) if one.owner is not pod.owner]
        flag = next((flag for box in pod.containers if (flag := _flag(box, _PORT_FLAGS))), None)
        word = flag[1][0] if flag and flag[1] else None
        if flag is None or word is None or not word.isdigit() or not pods:
            continue
        opened = sorted({port.number for one in pods for port in ports(one) if port.number})
        if opened and int(word) not in opened and not any(mentions(one, int(word)) for one in pods):
            message = f"asking engines: none of them opens this port: `{word}`"
            fix = f"write one of: {', '.join(map(str, opened))}"
            yield Hit(at=pod.owner, path=flag[0], message=message, fix=fix)


@rule("discovery-not-permitted", Severity.ERROR)
def discovery_not_permitted(world: World) -> Iterator[Hit]:
    """A router looks for engines with a service account that may not list and watch pods.

    The API server answers `pods is forbidden`, and the router never learns of an engine. Said where the folder shows
    the roles that are bound to the account.
    """
    told = set()
    for pod, _, _ in _routers(world):
        roles = list(_roles_of(world, pod))
        verbs = {verb for role in roles for _, verb in _pod_verbs(role)}
        missing = [verb for verb in _WANTED if verb not in verbs]
        if not roles or "*" in verbs or not missing or id(roles[0]) in told:
            continue
        told.add(id(roles[0]))
        path = next((path for path, _ in _pod_verbs(roles[0])), ("rules",))
        message = f"looking for engines: {pod.owner.title} may not do so with pods: `{', '.join(missing)}`"
        fix = "grant get, list and watch of pods"
        yield Hit(at=roles[0], path=path, message=message, fix=fix)


def _roles_of(world: World, pod: PodTemplate) -> Iterator[Object]:
    """The roles of a pod's service account; none where one of them is not shown."""
    account = literal(pod.spec, "serviceAccountName")
    found: list[Object | None] = []
    for binding in world.of_kind("RoleBinding", "ClusterRoleBinding") if account else ():
        names = [text(item, "name") for _, item in items(binding.value, "subjects")]
        is_near = binding.kind == "ClusterRoleBinding" or binding.namespace in (pod.namespace, None)
        if account in names and is_near:
            kind, name = text(binding.value, "roleRef", "kind"), text(binding.value, "roleRef", "name")
            space = binding.namespace if kind == "Role" else None
            found.append(world.find(kind or "", name or "", namespace=space))
    known = [role for role in found if role is not None]
    yield from known if len(known) == len(found) else ()


def _pod_verbs(role: Object) -> Iterator[tuple[FieldPath, str]]:
    for path, entry in items(role.value, "rules"):
        resources = [item for _, item in items(entry, "resources") if isinstance(item, str)]
        groups = [item for _, item in items(entry, "apiGroups") if isinstance(item, str)]
        if {"pods", "*"} & {*resources} and {"", "*"} & {*groups}:
            for place, verb in items(entry, "verbs"):
                if isinstance(verb, str):
                    yield (*path, *place[:-1]), verb
