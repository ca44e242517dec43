"""What probes ask a model server, how patiently, and how it is stopped."""

from __future__ import annotations

import re
from collections.abc import Iterator

from provisioner.domain.finding import Severity
from provisioner.lint.model_servers import Engine, engines
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.engines._reach import Probe, port_number, probe, probes, service_ways
from provisioner.lint.server_kinds import EngineKind
from provisioner.lint.values import items, look, mapping, text, whole
from provisioner.lint.world import Container, PodTemplate, World

_SERVERS = frozenset([EngineKind.VLLM, EngineKind.SGLANG, EngineKind.TGI])
_GENERATES = re.compile(r"health_generate|/completions|/generate|/embeddings|/infer\b")
_SERVING = frozenset(["Deployment", "StatefulSet", "DaemonSet", "LeaderWorkerSet"])
_LEAST_PATIENCE = 5
_LEAST_GRACE = 30


def _engine_probes(engine: Engine) -> Iterator[Probe]:
    """The probes that ask the engine itself."""
    for found in probes(engine):
        number = port_number(engine, look(found.value, "httpGet", "port"))
        if engine.is_alone or number is None or number == engine.port:
            yield found


@rule("readiness-probe-missing", Severity.WARNING)
def readiness_probe_missing(world: World) -> Iterator[Hit]:
    """A model server has no readiness probe.

    Without one the pod counts as ready as soon as its process runs (or, with a start-up probe, once for ever), so that
    requests go to an engine that is still loading, or that answers nothing any more. A roll-out is done minutes before
    anything serves.
    """
    for engine in engines(world):
        if probe(engine, "readinessProbe") is not None or engine.is_worker or engine.pod.owner.kind not in _SERVING:
            continue
        started = probe(engine, "startupProbe")
        if started is None or service_ways(engine, world):
            once = ", ready for ever once it has started" if started else ""
            message = f"starting {engine.kind}: no readinessProbe in container `{engine.container.name}`{once}"
            path = engine.profile.paths and "/health" in engine.profile.paths
            fix = f"add a readinessProbe{' on /health' if path else ''}"
            yield Hit(at=engine.pod.owner, path=engine.container.path, message=message, fix=fix)


@rule("probe-on-unknown-path", Severity.ERROR)
def probe_on_unknown_path(world: World) -> Iterator[Hit]:
    """A probe asks for a path that the model server does not have.

    It answers 404, which is a failure: the container never becomes ready or is restarted for ever. vLLM, SGLang, Text
    Generation Inference and llama.cpp answer on `/health`, Triton on `/v2/health/ready`, NIM on `/v1/health/ready`.
    """
    for engine in engines(world):
        known = engine.profile.paths
        if known is None or engine.find("--api-prefix") or engine.find("--middleware") or engine.find("--root-path"):
            continue
        for found in _engine_probes(engine):
            asked = found.asks
            if asked is None or asked in known or _GENERATES.search(asked):
                continue
            health = next(path for path in ("/health", "/v2/health/ready", "/v1/health/ready") if path in known)
            yield Hit(
                at=engine.pod.owner,
                path=(*found.path, "httpGet", "path"),
                message=f"reading {found.name}: {engine.kind} has no such path: `{asked}`",
                fix=f"ask for {health}",
            )


@rule("liveness-generates", Severity.WARNING)
def liveness_generates(world: World) -> Iterator[Hit]:
    """The liveness probe makes the engine work.

    A request that generates waits in the same queue as everybody's: under load it is late, and the kubelet restarts a
    healthy engine just when it is needed most. It is a fine check from outside, not a reason to kill.
    """
    for engine in engines(world):
        found = probe(engine, "livenessProbe")
        command = " ".join(str(item) for item in look(found.value, "exec", "command") or ()) if found else ""
        asked = (found.asks if found else None) or command
        if found is not None and _GENERATES.search(asked):
            message = f"reading livenessProbe: it waits behind the requests of {engine.kind}: `{asked[:60]}`"
            yield Hit(at=engine.pod.owner, path=found.path, message=message, fix="ask for /health")


@rule("liveness-blind", Severity.WARNING)
def liveness_blind(world: World) -> Iterator[Hit]:
    """The liveness probe asks for something that also answers when the engine is dead.

    The list of models and the metrics come from the web server in front of the engine; they stay 200 after the engine
    process died, and every request hangs (KServe issue 6259). vLLM's `/health` asks the engine.
    """
    for engine in engines(world):
        found = probe(engine, "livenessProbe")
        if found is not None and found.asks in engine.profile.blind_paths:
            message = f"reading livenessProbe: {engine.kind} answers this with a dead engine too: `{found.asks}`"
            path = (*found.path, "httpGet", "path")
            yield Hit(at=engine.pod.owner, path=path, message=message, fix="ask for /health")


@rule("liveness-impatient", Severity.WARNING)
def liveness_impatient(world: World) -> Iterator[Hit]:
    """One slow answer, or a few seconds of them, restart the model server.

    A long prefill or a garbage collection delays `/health` by seconds; a restart then costs the minutes of loading the
    model and every running request. Readiness may be strict, liveness must not.
    """
    for engine in engines(world):
        found = probe(engine, "livenessProbe")
        if found is None or not found.is_known:
            continue
        if found.failures == 1 or found.period * found.failures < _LEAST_PATIENCE:
            patience = f"{found.failures} x {found.period} s"
            message = (
                f"reading livenessProbe: a restart of {engine.kind} takes minutes, it is killed after `{patience}`"
            )
            fix = "use failureThreshold 3 or more and periodSeconds 10"
            yield Hit(at=engine.pod.owner, path=found.path, message=message, fix=fix)


@rule("liveness-timeout-of-one-second", Severity.INFO)
def liveness_timeout_of_one_second(world: World) -> Iterator[Hit]:
    """The liveness probe waits for one second only, which is the default.

    Under full load the web server of an engine can answer later than that.
    """
    for engine in engines(world):
        found = probe(engine, "livenessProbe")
        if found is not None and found.is_known and found.timeout == 1 and found.asks is not None:
            message = f"reading livenessProbe: {engine.kind} under load may answer later than after `1 s`"
            yield Hit(at=engine.pod.owner, path=found.path, message=message, fix="set timeoutSeconds to 5 or more")


def _by_tcp(world: World, kinds: frozenset[EngineKind]) -> Iterator[Hit]:
    for engine in engines(world):
        found = probe(engine, "readinessProbe")
        if found is not None and look(found.value, "tcpSocket") and engine.kind in kinds:
            message = f"reading readinessProbe: an open port says little about {engine.kind}: `tcpSocket`"
            yield Hit(at=engine.pod.owner, path=found.path, message=message, fix="use httpGet on /health")


@rule("readiness-by-tcp", Severity.INFO)
def readiness_by_tcp(world: World) -> Iterator[Hit]:
    """The readiness probe only opens a connection.

    The web server keeps its port open when the engine behind it is dead: the pod gets requests that it cannot answer.
    `/health` asks the engine.
    """
    yield from _by_tcp(world, _SERVERS)


@rule("readiness-while-loading", Severity.WARNING)
def readiness_while_loading(world: World) -> Iterator[Hit]:
    """The readiness probe opens a connection to a server that listens while it still loads its model.

    llama.cpp's server opens its port first and answers 503 until the model is loaded: with a TCP probe the pod is ready
    and every request fails.
    """
    yield from _by_tcp(world, frozenset([EngineKind.LLAMA_CPP]))


@rule("probe-without-key", Severity.ERROR)
def probe_without_key(world: World) -> Iterator[Hit]:
    """A probe asks for a path that wants the API key, without sending it.

    With a key vLLM and SGLang answer 401 on everything under `/v1`; `/health` stays open.
    """
    for engine in engines(world):
        if engine.kind not in (EngineKind.VLLM, EngineKind.SGLANG):
            continue
        variable = engine.variable("VLLM_API_KEY") if engine.kind is EngineKind.VLLM else None
        if not engine.find("key") and not variable:
            continue
        for found in _engine_probes(engine):
            if (found.asks or "").startswith("/v1") and "uthorization" not in str(look(found.value, "httpGet")):
                message = f"reading {found.name}: {engine.kind} wants its API key here and answers 401: `{found.asks}`"
                path = (*found.path, "httpGet", "path")
                yield Hit(at=engine.pod.owner, path=path, message=message, fix="ask for /health")


@rule("probe-with-other-scheme", Severity.ERROR)
def probe_with_other_scheme(world: World) -> Iterator[Hit]:
    """A probe speaks plain HTTP to a model server with TLS, or TLS to one without.

    Neither can answer the other, so the probe fails for ever.
    """
    for engine in engines(world):
        if "tls" not in engine.profile.flags or not engine.is_complete:
            continue
        wanted = "HTTPS" if engine.find("tls") else "HTTP"
        for found in _engine_probes(engine) if engine.is_alone else ():
            scheme = text(found.value, "httpGet", "scheme") or "HTTP"
            if found.asks is not None and scheme in ("HTTP", "HTTPS") and scheme != wanted:
                message = f"reading {found.name}: {engine.kind} speaks {wanted}, the probe `{scheme}`"
                path = (*found.path, "httpGet")
                yield Hit(at=engine.pod.owner, path=path, message=message, fix=f"set scheme: {wanted}")


@rule("probe-plain-on-tls-port", Severity.WARNING)
def probe_plain_on_tls_port(world: World) -> Iterator[Hit]:
    """A probe speaks plain HTTP to a port that is named `https`.

    A server with TLS answers 400 or cuts the connection, and the probe fails for ever. The scheme of a probe is HTTP
    unless it says HTTPS.
    """
    for pod in world.pods:
        for container in pod.containers:
            names = {whole(item, "containerPort"): text(item, "name") for _, item in items(container.value, "ports")}
            for name in ("startupProbe", "readinessProbe", "livenessProbe"):
                asked = mapping(container.value, name, "httpGet")
                port = asked.get("port")
                is_tls = port == "https" or (isinstance(port, int) and names.get(port) == "https")
                if is_tls and asked.get("scheme", "HTTP") == "HTTP":
                    message = f"reading {name}: it speaks plain HTTP to the port `https` of {container.name}"
                    path = (*container.path, name, "httpGet")
                    yield Hit(at=pod.owner, path=path, message=message, fix="set scheme: HTTPS")


@rule("probe-success-threshold", Severity.ERROR)
def probe_success_threshold(world: World) -> Iterator[Hit]:
    """A liveness or start-up probe has a successThreshold other than 1.

    The API server refuses the object; only readiness may ask for several successes.
    """
    for pod in world.pods:
        for container in pod.containers:
            for name in ("livenessProbe", "startupProbe"):
                number = whole(container.value, name, "successThreshold")
                if number is not None and number != 1:
                    path = (*container.path, name, "successThreshold")
                    message = f"reading {name}: successThreshold must be 1, found `{number}`"
                    yield Hit(at=pod.owner, path=path, message=message, fix="remove it")


@rule("grace-period-short", Severity.WARNING)
def grace_period_short(world: World) -> Iterator[Hit]:
    """A model server gets less time to end than an answer takes.

    After terminationGracePeriodSeconds the kubelet kills it, and every stream that still runs breaks off. Answers of
    large models take tens of seconds; the default is 30.
    """
    for engine in engines(world):
        grace = whole(engine.pod.spec, "terminationGracePeriodSeconds")
        if grace is not None and grace < _LEAST_GRACE:
            message = f"stopping {engine.kind}: running answers are cut off after `{grace} s`"
            path = engine.pod.at("terminationGracePeriodSeconds")
            yield Hit(at=engine.pod.owner, path=path, message=message, fix="allow 60 s or more")


_ENDS_WITHIN = {EngineKind.TRITON: "--exit-timeout-secs", EngineKind.VLLM: "--shutdown-timeout"}


@rule("exit-timeout-beyond-grace", Severity.WARNING)
def exit_timeout_beyond_grace(world: World) -> Iterator[Hit]:
    """A model server wants to wait longer for running requests than the kubelet lets it live.

    Triton's `--exit-timeout-secs` and vLLM's `--shutdown-timeout` begin after the preStop hook, the grace period before
    it. When it is over, the kubelet kills the server, and the requests that it waited for break off.
    """
    for engine in engines(world):
        name = _ENDS_WITHIN.get(engine.kind)
        flag = engine.find(name) if name else None
        seconds = engine.number(name) if name else None
        grace = _grace(engine.pod)
        slept = _slept(engine.container) or 0
        if flag is not None and seconds is not None and grace is not None and seconds + slept > grace:
            message = (
                f"stopping {engine.kind}: it waits {slept + seconds:.0f} s, the kubelet kills it after `{grace} s`"
            )
            fix = f"raise terminationGracePeriodSeconds above it, or lower {flag.name}"
            yield Hit(at=engine.pod.owner, path=flag.path, message=message, fix=fix)


def _grace(pod: PodTemplate) -> int | None:
    """Seconds until a pod that is to end is killed, None where they are not known."""
    is_told = look(pod.spec, "terminationGracePeriodSeconds") is not None
    return whole(pod.spec, "terminationGracePeriodSeconds") if is_told else 30


def _slept(container: Container) -> int | None:
    """Seconds that a container's preStop hook sleeps, None where it has none that does."""
    hook = look(container.value, "lifecycle", "preStop")
    words = " ".join(str(item) for item in look(hook, "exec", "command") or () if isinstance(item, str | int))
    slept = re.search(r"\bsleep (\d{1,6})\b", words)
    return whole(hook, "sleep", "seconds") if slept is None else int(slept[1])


@rule("pre-stop-beyond-grace", Severity.ERROR)
def pre_stop_beyond_grace(world: World) -> Iterator[Hit]:
    """A container sleeps before its stop for as long as the whole grace period, or longer.

    The grace period starts with the hook. When it is over, the kubelet kills the container at once: the server never
    hears that it should end, and running requests break off.
    """
    for pod in world.pods:
        limit = _grace(pod)
        for container in pod.containers:
            seconds = _slept(container)
            if limit is not None and seconds is not None and seconds >= limit:
                path = (*container.path, "lifecycle", "preStop")
                message = f"stopping {container.name}: it sleeps {seconds} s, the whole grace period is `{limit} s`"
                yield Hit(at=pod.owner, path=path, message=message, fix="raise terminationGracePeriodSeconds above it")
