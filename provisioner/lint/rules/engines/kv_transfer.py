"""Hand-over of caches between vLLM servers: what `--kv-transfer-config` must say."""

from __future__ import annotations

import json
from collections.abc import Iterator

from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.slips import meant
from provisioner.lint.model_servers import engines
from provisioner.lint.rule import Hit, rule
from provisioner.lint.server_kinds import EngineKind
from provisioner.lint.world import World

_FLAG = "--kv-transfer-config"
_ROLES = ("kv_producer", "kv_consumer", "kv_both")
_FIELDS = (
    *("kv_connector", "engine_id", "kv_buffer_device", "kv_buffer_size", "kv_role", "kv_rank", "kv_parallel_size"),
    *("kv_ip", "kv_port", "kv_connector_extra_config", "kv_connector_module_path", "enable_permute_local_kv"),
    *("kv_load_failure_policy",),
)


@rule("kv-transfer-refused", Severity.ERROR)
def kv_transfer_refused(world: World) -> Iterator[Hit]:
    """vLLM refuses how caches are to be handed over: a role it does not know, none, or no connector.

    `kv_role` is kv_producer, kv_consumer or kv_both and is required with a `kv_connector`. vLLM ends before it loads
    anything.
    """
    for engine in engines(world):
        flag = engine.find(_FLAG) if engine.kind is EngineKind.VLLM else None
        if flag is None or not flag.value or flag.is_unknown:
            continue
        try:
            given = json.loads(flag.value)
        except (ValueError, RecursionError):
            continue  # another rule's
        for message, fix in _faults(given) if isinstance(given, dict) else ():
            message = f"reading {_FLAG}: {message}"
            yield Hit(at=engine.pod.owner, path=flag.path, message=message, fix=fix)


def _faults(given: dict[str, object]) -> Iterator[tuple[str, str]]:
    role = given.get("kv_role")
    if role is None and given.get("kv_connector"):
        yield "a kv_connector needs a role: `kv_role`", f"write one of: {', '.join(_ROLES)}"
    elif role is not None and role not in _ROLES:
        near = nearest_name(str(role), _ROLES)
        yield (
            f"vLLM knows no kv_role `{role}`",
            f"did you mean {near}?" if near else f"write one of {', '.join(_ROLES)}",
        )
    for name in given:
        near = meant(name, _FIELDS) if name not in _FIELDS else None
        if near is not None:
            yield f"vLLM knows no field `{name}`", f"did you mean {near}?"
