"""What containers are started with: programs that are no programs, and variables that nobody fills in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from provisioner.catalog.fields import FieldPath, shown
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.pods import every_pod
from provisioner.lint.joins.references import offered
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, items, literal, look, mapping, text, whole
from provisioner.lint.world import Container, PodTemplate, World, same_namespace

_VARIABLE = re.compile(r"(?<!\$)\$\(([A-Z][A-Z0-9_]+)\)")
_GIVEN = re.compile(
    r"(LWS|KUBERNETES|JOB|RAY|KUBERAY|PET|TORCHELASTIC|MASTER|GROVE|HOSTNAME)(_|$)|.*_SERVICE_(HOST|PORT)"
)
"""Variables that Kubernetes and operators put into containers by themselves."""


@rule("command-with-arguments-in-one-word", Severity.ERROR)
def command_with_arguments_in_one_word(world: World) -> Iterator[Hit]:
    """A container's `command` is a whole command line in one word.

    The runtime looks for a program with spaces in its name: "exec: "vllm serve": executable file not found in $PATH".
    Each argument is an item of its own, or the line is given to a shell: `[sh, -c, "…"]`.
    """
    for pod in every_pod(world):
        for container in pod.containers:
            first = look(container.value, "command", 0)
            if isinstance(first, str) and not has_hole(first) and re.fullmatch(r"[\w./-]+[ \t]+\S.*", first, re.DOTALL):
                message = f"starting container {container.name}: no program is called {shown(first)}"
                fix = "make an item of each word, or write [sh, -c, …]"
                yield Hit(at=pod.owner, path=(*container.path, "command", 0), message=message, fix=fix)


@rule("shell-ignores-arguments", Severity.ERROR)
def shell_ignores_arguments(world: World) -> Iterator[Hit]:
    """A shell is given a program and its arguments as several words, and runs the first one only.

    `sh -c` takes one word as the script; the words behind it are its `$0`, `$1` and so on. A server started that way
    gets no argument at all.
    """
    for pod in every_pod(world):
        for container in pod.containers:
            words = [item for part in ("command", "args") for _, item in items(container.value, part)]
            if len(words) > 3 and words[1] in ("-c", "-ec", "-lc") and re.search(r"(^|/)(ba|da|a)?sh$", str(words[0])):
                script = str(words[2])
                if not re.search(r"\$[0-9@*{]|\s", script.strip()) and not has_hole(script):
                    message = f"starting container {container.name}: the shell runs {shown(script)} without arguments"
                    fix = "write the whole line as one word, or leave the shell out"
                    yield Hit(at=pod.owner, path=(*container.path, "command"), message=message, fix=fix)


@rule("command-file-missing", Severity.ERROR)
def command_file_missing(world: World) -> Iterator[Hit]:
    """A container runs or reads a file in a ConfigMap's or Secret's volume, which has no such entry.

    Such a volume holds a file for each key and nothing else: the program ends with `No such file or directory`. Said
    for words that are a path, or a flag with one, where the folder holds the ConfigMap or Secret, or the Certificate
    that makes it.
    """
    for pod in every_pod(world):
        maps = _held(world, pod)
        for container in pod.containers if maps else ():
            for path, word in _paths(container):
                found = _file_of(container, maps, word)
                if found is not None and found[1] not in found[2]:
                    name, key, keys = found
                    message = f"starting container {container.name}: {name} has no entry {shown(key)}"
                    near = nearest_name(key, keys)
                    fix = f"did you mean `{near}`?" if near else f"it has: {', '.join(sorted(keys)) or 'nothing'}"
                    yield Hit(at=pod.owner, path=path, message=message, fix=fix)


@rule("command-file-not-executable", Severity.ERROR)
def command_file_not_executable(world: World) -> Iterator[Hit]:
    """A container's program is a file of a ConfigMap's or Secret's volume, and nobody may run it.

    Such files have mode 0644 unless `defaultMode` or an item says otherwise: `permission denied`, and the container
    never starts. A shell may read the file: `[sh, /scripts/run.sh]`.
    """
    for pod in every_pod(world):
        modes = {text(volume, "name"): _mode(volume) for _, volume in items(pod.spec, "volumes")}
        for container in pod.containers:
            program = text(container.value, "command", 0) or ""
            mount = _mount_of(container, program) if program.startswith("/") else None
            mode = modes.get(text(mount, "name"))
            if mode is not None and not mode & _MAY_RUN:
                message = (
                    f"starting container {container.name}: nobody may run a file of mode {mode:04o}: {shown(program)}"
                )
                fix = "set defaultMode: 0555 on the volume, or start it with a shell: [sh, …]"
                yield Hit(at=pod.owner, path=(*container.path, "command", 0), message=message, fix=fix)


_MAY_RUN = 0o111


def _mode(volume: Any) -> int | None:
    """The mode of a volume's files, None where they have several, or are no ConfigMap's or Secret's."""
    for kind in ("configMap", "secret"):
        source = look(volume, kind)
        if isinstance(source, Mapping) and not any(look(one, "mode") is not None for _, one in items(source, "items")):
            return 0o644 if look(source, "defaultMode") is None else whole(source, "defaultMode")
    return None


def _held(world: World, pod: PodTemplate) -> Mapping[str, tuple[str, frozenset[str]]]:
    """What the ConfigMaps and Secrets that are mounted as a whole are called, and their files, by volume."""
    found = {}
    for _, volume in items(pod.spec, "volumes"):
        for kind, part, key in (("ConfigMap", "configMap", "name"), ("Secret", "secret", "secretName")):
            name, known = literal(volume, part, key), mapping(volume, part)
            if name and not known.get("items") and known.get("optional") is not True:
                entries = _entries(world, kind, name, pod.namespace)
                if entries is not None and not any(map(has_hole, entries)):
                    found[text(volume, "name") or ""] = (f"{kind} {name}", entries)
    return found


def _entries(world: World, kind: str, name: str, namespace: str | None) -> frozenset[str] | None:
    """The entries of a ConfigMap or Secret, or of what cert-manager makes; None where nobody can know all of them."""
    offers = [one for one in offered(world).get(kind, {}).get(name, ()) if same_namespace(one.namespace, namespace)]
    sources = [one.object for one in offers]
    if sources and all(sources):
        parts = ("data", "binaryData") if kind == "ConfigMap" else ("data", "stringData")
        return frozenset(
            str(key) for one in sources for part in parts for key in mapping(one.value if one else None, part)
        )
    for made in world.of_kind("Certificate") if kind == "Secret" and len(offers) == 1 else ():
        is_it = literal(made.value, "spec", "secretName") == name and same_namespace(made.namespace, namespace)
        if (
            is_it
            and not look(made.value, "spec", "keystores")
            and not look(made.value, "spec", "additionalOutputFormats")
        ):
            return frozenset({"tls.crt", "tls.key", "ca.crt"})
    return None


def _paths(container: Container) -> Iterator[tuple[FieldPath, str]]:
    for part in ("command", "args"):
        for path, item in items(container.value, part):
            found = re.fullmatch(r"(?:--?[\w.-]+=)?((?:/[\w.-]+)+)", item) if isinstance(item, str) else None
            if found is not None:
                yield (*container.path, *path), found[1]


def _mount_of(container: Container, path: str) -> Any:
    """The mount on which a path lies, the innermost one; None for the image's own files."""
    around = [
        (len(where), mount)
        for _, mount in items(container.value, "volumeMounts")
        if (where := text(mount, "mountPath")) and f"{path}/".startswith(f"{where.rstrip('/')}/")
    ]
    return max(around, key=lambda found: found[0], default=(0, None))[1]


def _file_of(
    container: Container, maps: Mapping[str, tuple[str, frozenset[str]]], path: str
) -> tuple[str, str, frozenset[str]] | None:
    """The ConfigMap, the entry and all entries that a path leads to; None for a path elsewhere."""
    mount = _mount_of(container, path)
    where = (text(mount, "mountPath") or "").rstrip("/")
    source = maps.get(text(mount, "name") or "\n")
    if source is None or path == where or look(mount, "subPath") or look(mount, "subPathExpr"):
        return None
    return source[0], path.removeprefix(f"{where}/").partition("/")[0], source[1]


@rule("argument-variable-undefined", Severity.WARNING)
def argument_variable_undefined(world: World) -> Iterator[Hit]:
    """An argument holds a variable that the container does not have.

    Kubernetes fills in `$(NAME)` from the container's own `env` and leaves it as it stands where there is none: the
    program gets the dollar sign and the brackets, or a shell runs it as a command.
    """
    for pod in every_pod(world):
        for container in pod.containers:
            if not look(container.value, "envFrom"):
                yield from _undefined(pod, container)


def _undefined(pod: PodTemplate, container: Container) -> Iterator[Hit]:
    known = {text(item, "name") for _, item in items(container.value, "env")}
    for path, word in _words(container):
        for name in _VARIABLE.findall(word):
            if name not in known and not _GIVEN.match(name):
                message = f"starting container {container.name}: nobody fills in `$({name})`"
                fix = f"add {name} to the container's env, or write $$({name}) for the text itself"
                yield Hit(at=pod.owner, path=path, message=message, fix=fix)
            elif name not in known and name.startswith("LWS_") and name not in _OF_GROUPS:
                message = f"starting container {container.name}: LeaderWorkerSet has no variable `{name}`"
                fix = f"there are: {', '.join(sorted(_OF_GROUPS))}"
                yield Hit(at=pod.owner, path=path, message=message, fix=fix)


_OF_GROUPS = frozenset(["LWS_LEADER_ADDRESS", "LWS_GROUP_SIZE", "LWS_WORKER_INDEX"])
"""What the LeaderWorkerSet controller gives to every container of a group."""


def _words(container: Container) -> Iterator[tuple[FieldPath, str]]:
    for part in ("command", "args"):
        for path, item in items(container.value, part):
            if isinstance(item, str) and "$(" in item and not has_hole(item):
                yield (*container.path, *path), item
