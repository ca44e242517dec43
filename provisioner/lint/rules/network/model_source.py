"""Network policies against downloads: whether a model server reaches the hub that it loads its model from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from provisioner.domain.finding import Severity
from provisioner.lint.model_servers import Engine, engines
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.network._policies import covers, denying, has_other_policies
from provisioner.lint.server_kinds import EngineKind
from provisioner.lint.values import items, look
from provisioner.lint.world import World

_HUB = frozenset((EngineKind.VLLM, EngineKind.SGLANG, EngineKind.TGI, EngineKind.TEI))
_ELSEWHERE = (
    *("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_ENDPOINT", "HTTPS_PROXY", "https_proxy", "HF_HUB_CACHE"),
    *("VLLM_USE_MODELSCOPE", "ALL_PROXY"),
)


@rule("model-source-denied", Severity.WARNING)
def model_source_denied(world: World) -> Iterator[Hit]:
    """Network policies keep a model server from the hub that it downloads its model from.

    No rule lets its pods out to port 443 beyond the cluster. The download hangs until it times out, unless the model
    lies in the cache already; then `HF_HUB_OFFLINE=1` says so, and the server does not even ask.
    """
    for engine in () if has_other_policies(world) else engines(world):
        if engine.kind not in _HUB or not _downloads(engine):
            continue
        denied = denying(world, engine.pod, "egress")
        rules = [one for policy in denied for one in policy.allows("egress")]
        if denied and not any(_leads_out(one) for one in rules):
            message = f"downloading {engine.model}: no policy lets its pods out to the hub: port `443`"
            fix = f"allow egress to port 443 in {denied[-1].object.title}, or set HF_HUB_OFFLINE=1"
            yield Hit(at=engine.pod.owner, path=engine.model_path, message=message, fix=fix)


def _downloads(engine: Engine) -> bool:
    model = engine.model or ""
    is_name = model.count("/") == 1 and not model.startswith(("/", ".")) and ":" not in model and "$" not in model
    told = any(engine.variable(name) for name in _ELSEWHERE) or look(engine.container.value, "envFrom")
    return is_name and not told and not engine.find("--load-format")


def _leads_out(one: Any) -> bool:
    """Whether a rule may lead beyond the cluster, or to a proxy in it."""
    peers = [peer for _, peer in items(one, "to")]
    is_other = [peer for peer in peers if look(peer, "ipBlock") is None]
    if peers and is_other == peers:
        return not (covers(one, 53, "UDP") and not covers(one, 443, "TCP")) and not _is_own(peers)
    return covers(one, 443, "TCP") or not covers(one, 53, "UDP")


def _is_own(peers: list[Any]) -> bool:
    """Whether all peers are pods of the policy's own namespace."""
    return all(look(peer, "namespaceSelector") is None for peer in peers)
