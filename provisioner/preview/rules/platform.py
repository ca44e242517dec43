"""What a change of what an installation needs once does to the endpoints: our own processes, keys, backups.

Source: how our own processes act (docs/concepts): inference goes on without the API, workers and reconciler; gateways
drain before they end, and requests that are longer than that are cut.
"""

from __future__ import annotations

from provisioner.preview.effect import Effect, Rule, Way, rule
from provisioner.preview.sides import GATEWAY_LIMITS

OWN_GATEWAY, OWN_PROCESS = "OwnGateway", "OwnProcess"
"""Stand as kind for the Deployments of our gateways and of everything else that is ours."""

PLATFORM_RULES: tuple[Rule, ...] = (
    rule(f"{OWN_GATEWAY} {OWN_PROCESS}", r"metadata\.(labels|annotations)", Effect.NOTHING, "words and labels only"),
    rule(OWN_GATEWAY, r"$", Effect.NOTHING, "more gateways", way=Way.ADDED),
    rule(OWN_GATEWAY, r"$", Effect.DATA_LOST, "nothing reaches any endpoint any more", way=Way.REMOVED),
    rule(OWN_GATEWAY, r"", Effect.PODS_RESTART, "gateways restart in turns: streams longer than their draining end"),
    rule(OWN_PROCESS, r"", Effect.CONFIG_RELOAD, "our own process restarts; inference goes on"),
    rule(GATEWAY_LIMITS, r"", Effect.CONFIG_RELOAD, "gateways hold tenants to it from their next snapshot on"),
    rule("User OwnedAccessKey", r"", Effect.CONFIG_RELOAD, "what we may do on the Platform changes"),
    rule("Schedule BackupStorageLocation", r"", Effect.NOTHING, "backups are made at other times"),
)
