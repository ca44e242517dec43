"""The keys of a stack's config, `tenantry:<name>` in Pulumi.<stack>.yaml: one table for reading and for the docs.

Read by `config` and by the generator of the reference. Imports nothing of Pulumi.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from provisioner.rendering.platform import SECRETS, SECRETS_OF_SOME_SITES

PROJECT = "tenantry"
PLATFORM = "platform"
TIER = "tier"
PROGRAMS: Mapping[str, str] = {
    PLATFORM: "what an installation needs once",
    TIER: "one tier in one region",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key: what it says, the programs that read it and whether they need it; secrets are never kept in clear."""

    meaning: str
    programs: frozenset[str]
    is_required: bool = False
    is_secret: bool = False


def config_key(secret: str) -> str:
    """The key of a secret of the installation: `clientCaKey` for `client_ca_key`."""
    first, *others = secret.split("_")
    return first + "".join(map(str.capitalize, others))


_BOTH, _PLATFORM, _TIER = frozenset(PROGRAMS), frozenset({PLATFORM}), frozenset({TIER})

KEYS: Mapping[str, Key] = {
    "program": Key(meaning="which program the stack runs: `platform` or `tier`", programs=_BOTH, is_required=True),
    "site": Key(
        meaning="`site.yaml` of the installation, a path from the folder of Pulumi.yaml",
        programs=_BOTH,
        is_required=True,
    ),
    "catalog": Key(
        meaning="a provider's own folder, laid over the template pack; a path from the folder of Pulumi.yaml",
        programs=_BOTH,
    ),
    "kubeconfig": Key(
        meaning=(
            "text of a kubeconfig with a context for each control plane cluster; without it the file of `KUBECONFIG` "
            "is read where `pulumi` runs"
        ),
        programs=_PLATFORM,
        is_secret=True,
    ),
    **{
        config_key(name): Key(
            meaning=meaning, programs=_PLATFORM, is_required=name not in SECRETS_OF_SOME_SITES, is_secret=True
        )
        for name, meaning in SECRETS.items()
    },
    "tier": Key(meaning="name of the tier", programs=_TIER, is_required=True),
    "region": Key(
        meaning="region of the site; its control plane cluster is where the tier is published",
        programs=_TIER,
        is_required=True,
    ),
    "platform": Key(
        meaning="the platform's stack: its name, or `<organization>/<project>/<stack>`",
        programs=_TIER,
        is_required=True,
    ),
    "fleet": Key(
        meaning=(
            "fleet.json, which says which endpoints pin which version; a path from the folder of Pulumi.yaml. Without "
            "it no published version may go"
        ),
        programs=_TIER,
    ),
}
