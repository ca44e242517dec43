"""Where usage goes, by the configuration: to a file, to the control plane, to both or nowhere. Called by `server`."""

from __future__ import annotations

from collections.abc import Sequence

from provisioner.gateway.config import GatewayConfig
from provisioner.gateway.operator.counters import Counters
from provisioner.gateway.usage.delivery import Delivery
from provisioner.gateway.usage.file import UsageFile
from provisioner.gateway.usage.outlet import Sink
from provisioner.gateway.usage.spool import Spool

_SPOOL = "usage"
"""The folder of the spool, beside the last snapshot."""


def usage_sinks(config: GatewayConfig, counters: Counters) -> Sequence[Sink]:
    """The sinks for the usage of one gateway."""
    sinks: list[Sink] = []
    if config.usage.file is not None:
        sinks.append(UsageFile(config.usage.file, counters))
    if config.control is not None:
        spool = Spool(config.control.snapshot_file.with_name(_SPOOL), limit_bytes=config.usage.spool_bytes)
        sinks.append(Delivery(config.control, spool, counters))
    return sinks
