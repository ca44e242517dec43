"""What a process of the server does. One may do everything, or several each a part; of every part there may be several.

The command line takes these names, and the manifests of an installation pass them on.
"""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """One part of the server."""

    API = "api"
    """Answers REST requests; holds the operator's key and the gateways', and reaches no cluster."""
    WORKER = "worker"
    """Works on operations of endpoints, with the runtime key."""
    TENANTS = "tenants"
    """Works on operations of tenants: the only one that holds the bootstrap key."""
    RECONCILER = "reconciler"
    """Observes replicas and publishes snapshots."""
