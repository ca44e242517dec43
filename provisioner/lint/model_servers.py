"""The model servers in a world: which engine a container runs, and with which flags.

Rules about engines ask `engines(world)`. An engine is recognised by its program in command or arguments (also inside
`sh -c`), or by its image where the image's own entry point starts it. What a template fills in later is unknown, and
an engine with unknown words is never said to lack a flag. What each engine is called by stands in `server_kinds`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from provisioner.catalog.fields import FieldPath
from provisioner.lint.server_kinds import ENGINES, EngineKind, Profile
from provisioner.lint.values import Hole, is_known, items, look, mapping, text, whole
from provisioner.lint.world import Container, PodTemplate, World

_SHELLS = frozenset({"sh", "bash", "ash", "dash"})
_ENDS = re.compile(r"^[;&|]+$|^\n$")
_VARIABLE = re.compile(r"\$\((\w+)\)|\$\{(\w+)\}|\$(\w+)")
GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a command line and the item of `command` or `args` it comes from; None for an unknown text."""

    text: str | None
    path: FieldPath


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag as it was given. `name` has dashes for underscores; `value` is None where it is absent or unknown."""

    name: str
    value: str | None
    path: FieldPath
    is_unknown: bool = False
    """Whether a value is given that nobody knows yet."""


@dataclass(frozen=True, eq=False)
class Predictor(PodTemplate):
    """The pods of a KServe InferenceService: `spec.predictor` is itself the pod's spec."""

    @property
    def spec(self) -> Mapping[str, Any]:
        """The pod's spec."""
        return mapping(self.owner.value, *self.path)

    @cached_property
    def containers(self) -> tuple[Container, ...]:
        """Its containers; the model of a serving runtime has arguments only and is not among them."""
        return tuple(
            Container(item, (*self.path, *path), is_init=False)
            for path, item in items(self.spec, "containers")
            if isinstance(item, Mapping)
        )

    def at(self, *path: str | int) -> FieldPath:
        """The path of a field of the pod's spec, from the owner's top."""
        return (*self.path, *path)


@dataclass(frozen=True, eq=False)
class Engine:
    """One container that runs a model server."""

    kind: EngineKind
    pod: PodTemplate
    container: Container
    words: tuple[Word, ...]
    """The engine's own words, without the program."""
    in_shell: bool

    @property
    def profile(self) -> Profile:
        """What is known about this engine in general."""
        return ENGINES[self.kind]

    @cached_property
    def _parsed(self) -> tuple[tuple[Flag, ...], tuple[Word, ...]]:
        flags: list[Flag] = []
        others: list[Word] = []
        words = list(self.words)
        while words:
            word = words.pop(0)
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
                following = words.pop(0)
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

    @property
    def is_complete(self) -> bool:
        """Whether all words are known, so that an absent flag is really absent."""
        return all(word.text is not None for word in self.others) and not self.has("--config")

    @cached_property
    def _by_name(self) -> Mapping[str, Flag]:
        return {flag.name: flag for flag in self.flags}  # the last one wins, as in argparse

    def has(self, name: str) -> bool:
        """Whether the flag is given, under exactly this name."""
        return name in self._by_name

    def find(self, concept: str) -> Flag | None:
        """The last flag for a concept of the profile (`host`, `tensor`, …), or of exactly this name."""
        names = self.profile.flags.get(concept, (concept,))
        return next((flag for flag in reversed(self.flags) if flag.name in names), None)

    def value(self, concept: str) -> str | None:
        """The value for a concept: the flag's, else the environment variable's; None where absent or unknown."""
        flag = self.find(concept)
        if flag is not None:
            return flag.value
        variable = self.profile.variables.get(concept)
        return self.environment.get(variable) if variable else None

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

    def variable(self, name: str) -> FieldPath | None:
        """Where the container sets a variable, whatever its value."""
        for path, item in items(self.container.value, "env"):
            if text(item, "name") == name:
                return (*self.container.path, *path)
        return None

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
        return self.count("port", default) if default is not None else self._given_port()

    def _given_port(self) -> int | None:
        return self.count("port") if self.value("port") is not None else None

    @cached_property
    def model(self) -> str | None:
        """What it loads: a hub name or a path."""
        given = self.value("model")
        if given is None and self.kind is EngineKind.VLLM and self.find("model") is None:
            given = next((word.text for word in self.others if word in (self.words[0], self.words[-1])), None)
        return given

    @property
    def model_path(self) -> FieldPath:
        """Where the model is named."""
        flag = self.find("model")
        return flag.path if flag else self.others[0].path if self.others else self.container.path

    @property
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


def engines_of(world: World, pods: Iterator[PodTemplate]) -> Iterator[Engine]:
    """The engines in some pod templates."""
    wanted = {(id(pod.owner), pod.path) for pod in pods}
    return (engine for engine in engines(world) if (id(engine.pod.owner), engine.pod.path) in wanted)


def _recognise(pod: PodTemplate, container: Container) -> Iterator[Engine]:
    if container.is_init:
        return
    words, in_shell = _words(container)
    for kind, profile in ENGINES.items():
        start = _after_program(words, profile)
        if start is not None:
            yield Engine(kind, pod, container, _until_end(words[start:], in_shell), in_shell)
            return
    repository = _repository(container.image)
    has_command = any(True for _ in items(container.value, "command"))
    for kind, profile in ENGINES.items():
        if profile.runs_image(repository) and not has_command and _is_plain(words):
            yield Engine(kind, pod, container, tuple(words), in_shell)
            return


def _is_plain(words: Sequence[Word]) -> bool:
    """Whether the arguments are an engine's: none, or flags first; not another program such as `ray start`."""
    first = next((word.text for word in words if word.text), None)
    return first is None or first.startswith("-") or "/" in first


def _words(container: Container) -> tuple[list[Word], bool]:
    raw = [
        Word(_known(item), (*container.path, *path))
        for part in ("command", "args")
        for path, item in items(container.value, part)
    ]
    environment = {
        name: value
        for _, item in items(container.value, "env")
        if (name := text(item, "name"))
        for value in [text(item, "value")]
    }
    if raw and raw[0].text and raw[0].text.rpartition("/")[2] in _SHELLS:
        return _script(raw[1:], environment), True
    return [Word(_expanded(word.text, environment, in_shell=False), word.path) for word in raw], False


def _known(item: object) -> str | None:
    if isinstance(item, Hole):
        name, equals, _ = item.partition("=")
        return f"{name}=" if equals and name.startswith("--") and "{" not in name else None
    return str(item) if isinstance(item, str | int | float) and not isinstance(item, bool) else None


def _script(words: Sequence[Word], environment: Mapping[str, str | None]) -> list[Word]:
    """The words of the scripts behind `-c`; a script that no shell could read has none."""
    found: list[Word] = []
    for word in words:
        if word.text is None or re.fullmatch(r"-[a-z]+|-o|pipefail", word.text):
            continue
        lexer = shlex.shlex(word.text.replace("\\\n", " "), posix=True, punctuation_chars=";&|\n")
        lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, "#"
        try:
            tokens = list(lexer)
        except ValueError:
            continue
        found.extend(Word(_expanded(token, environment, in_shell=True), word.path) for token in tokens)
    return found


def _expanded(word: str | None, environment: Mapping[str, str | None], *, in_shell: bool) -> str | None:
    """The word with its variables filled in; None, or a flag with an empty value, where one is unknown."""
    if word is None or "$" not in word:
        return word
    unknown = False

    def fill(match: re.Match[str]) -> str:
        nonlocal unknown
        if match.group(1) is None and not in_shell:
            return match.group(0)
        value = environment.get(match.group(1) or match.group(2) or match.group(3))
        unknown = unknown or value is None
        return value or ""

    filled = _VARIABLE.sub(fill, word)
    if not unknown and not (in_shell and "$" in filled):
        return filled
    name, equals, _ = word.partition("=")
    return f"{name}=" if equals and name.startswith("--") and "$" not in name else None


def _after_program(words: Sequence[Word], profile: Profile) -> int | None:
    """The position of the first word behind the engine's program, None where it is not started."""
    texts = [word.text or "" for word in words]
    for program in profile.programs:
        for position in range(len(texts) - len(program) + 1):
            heads = (texts[position].rpartition("/")[2], *texts[position + 1 : position + len(program)])
            if heads == program:
                return position + len(program)
    return None


def _until_end(words: Sequence[Word], in_shell: bool) -> tuple[Word, ...]:
    """The words of one command of a script."""
    if not in_shell:
        return tuple(words)
    end = next((at for at, word in enumerate(words) if word.text is not None and _ENDS.match(word.text)), len(words))
    return tuple(words[:end])


def _repository(image: str) -> str:
    """The image's name without registry's tag and digest."""
    name = image.partition("@")[0]
    head, slash, last = name.rpartition("/")
    return f"{head}{slash}{last.partition(':')[0]}".lower()


def _flag_name(written: str) -> str:
    return written.replace("_", "-") if written.startswith("--") else written


def _is_flag(word: Word) -> bool:
    return word.text is not None and re.match(r"--?[A-Za-z]", word.text) is not None


def vllm_version(engine: Engine) -> tuple[int, int] | None:
    """The release of vLLM that the image's tag names, such as (0, 14) for `v0.14.0-cu129`; None where it names none.

    Images that bring more than vLLM count versions of their own.
    """
    name = engine.container.image.partition("@")[0]
    match = re.search(r"vllm[\w.-]*:v?(\d{1,3})\.(\d{1,3})(\.|$|-)", name)
    if engine.kind is not EngineKind.VLLM or match is None or "lmcache" in name:
        return None
    return (int(match.group(1)), int(match.group(2)))


def group_size(engine: Engine) -> int | None:
    """Pods of one replica of a LeaderWorkerSet, None for anything else."""
    return whole(engine.pod.owner.value, "spec", "leaderWorkerTemplate", "size")
