"""The model servers in a world: which engine a container runs, and with which flags.

Rules about engines ask `engines(world)`. An engine is recognised by its program in command or arguments (also inside
`sh -c`), or by its image where the image's own entry point starts it. What a template fills in later is unknown, and
an engine with unknown words is never said to lack a flag. What each engine is called by stands in `server_kinds`.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from operator import itemgetter

from provisioner.catalog.fields import FieldPath
from provisioner.catalog.vllm_flags import vllm_release
from provisioner.lint.command_line import Word, command_line, until_end
from provisioner.lint.joins.pods import Predictor
from provisioner.lint.server_kinds import ENGINES, EngineKind, Profile
from provisioner.lint.values import is_known, items, look, mapping, text, whole
from provisioner.lint.world import Container, PodTemplate, World

_POSITIONAL = frozenset((EngineKind.VLLM, EngineKind.TRTLLM))
"""Engines that take their model as a word of its own."""
GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag as it was given. `name` has dashes for underscores; `value` is None where it is absent or unknown."""

    name: str
    value: str | None
    path: FieldPath
    is_unknown: bool = False
    """Whether a value is given that nobody knows yet."""


@dataclass(frozen=True, eq=False)
class Engine:
    """One container that runs a model server."""

    kind: EngineKind
    pod: PodTemplate
    container: Container
    words: tuple[Word, ...]
    """The engine's own words, without the program."""
    in_shell: bool

    @cached_property
    def profile(self) -> Profile:
        """What is known about this engine in general."""
        return ENGINES[self.kind]

    @cached_property
    def _parsed(self) -> tuple[tuple[Flag, ...], tuple[Word, ...]]:
        flags: list[Flag] = []
        others: list[Word] = []
        words = deque(self.words)
        while words:
            word = words.popleft()
            if word.text is None or not re.match(r"--?[A-Za-z]", word.text):
                others.append(word)
                continue
            name, equals, value = word.text.partition("=")
            name = _flag_name(name)
            if equals:
                flags.append(Flag(name, value, word.path, value == ""))
            elif name in self.profile.switches or not words or _is_flag(words[0]):
                flags.append(Flag(name, None, word.path))
            else:
                following = words.popleft()
                flags.append(Flag(name, following.text, word.path, following.text is None))
        return tuple(flags), tuple(others)

    @property
    def flags(self) -> tuple[Flag, ...]:
        """All flags, in order."""
        return self._parsed[0]

    @property
    def others(self) -> tuple[Word, ...]:
        """Words that belong to no flag: the model of `vllm serve MODEL`, and what stands there by mistake."""
        return self._parsed[1]

    @cached_property
    def is_complete(self) -> bool:
        """Whether all words are known, so that an absent flag is really absent."""
        return all(word.text is not None for word in self.others) and not self.has("--config")

    @cached_property
    def _by_name(self) -> Mapping[str, tuple[int, Flag]]:
        return {
            flag.name: (position, flag) for position, flag in enumerate(self.flags)
        }  # the last wins, as in argparse

    def has(self, name: str) -> bool:
        """Whether the flag is given, under exactly this name."""
        return name in self._by_name

    def find(self, concept: str) -> Flag | None:
        """The last flag for a concept of the profile (`host`, `tensor`, …), or of exactly this name."""
        given = self._by_name
        found = [given[name] for name in self.profile.flags.get(concept, (concept,)) if name in given]
        return max(found, key=itemgetter(0))[1] if found else None

    def value(self, concept: str) -> str | None:
        """The value for a concept: the flag's, else the environment variable's; None where absent or unknown."""
        flag = self.find(concept)
        if flag is not None:
            return flag.value
        for variables in (self.profile.variables, self.profile.older):
            if variables.get(concept) in self.environment:
                return self.environment[variables[concept]]
        return None

    def number(self, concept: str) -> float | None:
        """The value as a number, None where it is none."""
        try:
            return float(self.value(concept) or "")
        except ValueError:
            return None

    def count(self, concept: str, default: int = 1) -> int | None:
        """The value as a whole number; the default where the engine is certainly not told; None where unknown."""
        flag = self.find(concept)
        given = self.value(concept)
        if flag is None and given is None:
            return default if self.is_complete else None
        return int(given) if given is not None and given.isascii() and given.isdigit() and len(given) < 10 else None

    @cached_property
    def environment(self) -> Mapping[str, str]:
        """The container's variables with a known literal value."""
        found = {}
        for _, item in items(self.container.value, "env"):
            name, value = text(item, "name"), text(item, "value")
            if name and value is not None:
                found[name] = value
        return found

    @cached_property
    def _variables(self) -> Mapping[str | None, FieldPath]:
        return {text(item, "name"): (*self.container.path, *path) for path, item in items(self.container.value, "env")}

    def variable(self, name: str) -> FieldPath | None:
        """Where the container sets a variable, whatever its value."""
        return self._variables.get(name)

    @cached_property
    def gpus(self) -> int | None:
        """Whole GPUs of the container by extended resource; 0 where it asks for none, None where that is unknown."""
        resources = mapping(self.container.value, "resources")
        if look(resources, "claims"):
            return None
        for part in ("limits", "requests"):
            for name in GPU_RESOURCES:
                asked = look(resources, part, name)
                if asked is not None:
                    number = str(asked) if is_known(asked) else ""
                    return int(number) if number.isascii() and number.isdigit() and len(number) < 6 else None
        named = [key for part in ("limits", "requests") for key in mapping(resources, part)]
        return None if any("gpu" in str(key) or "mig-" in str(key) for key in named) else 0

    @property
    def gpu_path(self) -> FieldPath:
        """Where the container says how many GPUs it wants."""
        limits = mapping(self.container.value, "resources", "limits")
        name = next((name for name in GPU_RESOURCES if name in limits), None)
        return (*self.container.path, "resources", "limits", name) if name else self.container.path

    @cached_property
    def port(self) -> int | None:
        """The port it listens on, None where that is unknown."""
        default = self.profile.port
        address = re.search(r":(\d{1,5})$", self.value("host") or "")
        if address is not None and self.find("host") is None:
            return int(address[1])  # a variable that holds address and port
        return self.count("port", default) if default is not None else self._given_port()

    def _given_port(self) -> int | None:
        return self.count("port") if self.value("port") is not None else None

    @cached_property
    def model(self) -> str | None:
        """What it loads: a hub name or a path."""
        given = self.value("model")
        if given is None and self.kind in _POSITIONAL and self.find("model") is None:
            given = next((word.text for word in self.others if word in (self.words[0], self.words[-1])), None)
        return given

    @property
    def model_path(self) -> FieldPath:
        """Where the model is named."""
        flag = self.find("model")
        return flag.path if flag else self.others[0].path if self.others else self.container.path

    @cached_property
    def is_alone(self) -> bool:
        """Whether no other container of the pod could be what a probe, a Service or a monitor means."""
        running = [found for found in self.pod.containers if not found.is_init or text(found.value, "restartPolicy")]
        return len(running) == 1

    @cached_property
    def is_worker(self) -> bool:
        """Whether it is a rank behind a leader: it serves no API of its own."""
        value, path = self.pod.owner.value, ("spec", "leaderWorkerTemplate", "leaderTemplate")
        behind = self.pod.path[-1:] == ("workerTemplate",) and bool(mapping(value, *path))
        return behind or self.has("--headless")

    @cached_property
    def is_multi_node(self) -> bool:
        """Whether one replica spans several pods: a LeaderWorkerSet, Ray or an engine told of nodes or other ranks."""
        script = " ".join(self.container.arguments)
        return (
            self.pod.owner.kind in ("LeaderWorkerSet", "RayCluster", "RayService", "RayJob")
            or any(self.find(name) for name in ("nodes", "--data-parallel-address", "--headless"))
            or (self.value("--distributed-executor-backend") == "ray" or "ray start" in script)
            or self.variable("RAY_ADDRESS") is not None
        )


@lru_cache(maxsize=1)
def engines(world: World) -> tuple[Engine, ...]:
    """Every model server of the world. The world of one run is kept, since many rules ask."""
    return tuple(
        found for pod in _templates(world) for container in pod.containers for found in _recognise(pod, container)
    )


_MORE_TEMPLATES: Mapping[str, FieldPath] = {
    "ClusterServingRuntime": (),
    "RayCluster": ("spec", "headGroupSpec", "template"),
    "RayService": ("spec", "rayClusterConfig", "headGroupSpec", "template"),
    "ServingRuntime": (),
}
"""Where operators keep the pods that serve; their `spec` is a pod's."""


def _templates(world: World) -> Iterator[PodTemplate]:
    yield from world.pods
    for kind, path in _MORE_TEMPLATES.items():
        yield from (PodTemplate(owner, path) for owner in world.of_kind(kind))
    for owner in world.of_kind("InferenceService"):
        yield Predictor(owner, ("spec", "predictor"))


def _recognise(pod: PodTemplate, container: Container) -> Iterator[Engine]:
    if container.is_init:
        return
    words, in_shell = command_line(container)
    started = _started(words)
    if started is not None:
        kind, start = started
        yield Engine(kind, pod, container, until_end(words[start:], in_shell), in_shell)
        return
    name = repository(container.image)
    has_command = any(True for _ in items(container.value, "command"))
    for kind, profile in ENGINES.items():
        if profile.runs_image(name) and not has_command and _is_plain(words):
            yield Engine(kind, pod, container, tuple(words), in_shell)
            return


def _is_plain(words: Sequence[Word]) -> bool:
    """Whether the arguments are an engine's: none, or flags first; not another program such as `ray start`."""
    first = next((word.text for word in words if word.text), None)
    return first is None or first.startswith("-") or "/" in first


_PROGRAMS: Mapping[str, list[tuple[tuple[str, ...], EngineKind]]] = {
    first: [(program, kind) for kind, profile in ENGINES.items() for program in profile.programs if program[0] == first]
    for profile in ENGINES.values()
    for first in {program[0] for program in profile.programs}
}


def _started(words: Sequence[Word]) -> tuple[EngineKind, int] | None:
    """The engine that a command line starts and the position of its first own word, None where it starts none."""
    for position, word in enumerate(words):
        for program, kind in _PROGRAMS.get((word.text or "").rpartition("/")[2], ()):
            rest = [following.text for following in words[position + 1 : position + len(program)]]
            if tuple(rest) == program[1:]:
                return kind, position + len(program)
    return None


def repository(image: str) -> str:
    """The name of an image without tag and digest, in lower case."""
    name = image.partition("@")[0]
    head, slash, last = name.rpartition("/")
    return f"{head}{slash}{last.partition(':')[0]}".lower()


def _flag_name(written: str) -> str:
    return written.replace("_", "-") if written.startswith("--") else written


def _is_flag(word: Word) -> bool:
    return word.text is not None and re.match(r"--?[A-Za-z]", word.text) is not None


def vllm_version(engine: Engine) -> tuple[int, int] | None:
    """The release of vLLM that the image's tag names; None where it names none, and for other engines."""
    return vllm_release(engine.container.image) if engine.kind is EngineKind.VLLM else None


def group_size(engine: Engine) -> int | None:
    """Pods of one replica of a LeaderWorkerSet, None for anything else."""
    return whole(engine.pod.owner.value, "spec", "leaderWorkerTemplate", "size")
