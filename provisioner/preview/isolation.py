"""Whether tiers that isolate pods with vNode keep doing so through an upgrade: nobody else notices when they do not.

Source: vNode's documentation of its limitations (kernel 6.1 or later, containerd 1.7 or 2.0 and nothing else, and a
restart of vNode restarts every pod in it). Called by `findings`. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from provisioner.domain.finding import Finding, Severity
from provisioner.preview.alike import Group
from provisioner.preview.parts import Object
from provisioner.preview.report import FieldChange

_KUBERNETES = re.compile(r".*>controlPlane\.distro\.k8s\.(version|image)")
_VNODE = re.compile(r"spec\.template\.spec\.sources\[vnode[^]]*\]\.targetRevision$")
_SANDBOX = re.compile(r"runtimeClassName: *\"?vnode")


def isolation_findings(group: Group) -> Iterator[Finding]:
    """What to look at before an upgrade of a tier that uses vNode."""
    if not any(_uses_vnode(found) for pair in group.units for found in (*pair.base.objects, *pair.head.objects)):
        return
    for change in group.changes:
        for field in change.fields:
            about = f"{change.kind} {change.name}"
            if _KUBERNETES.match(field.path):
                yield _finding(group.tier, field, about, f"moving Kubernetes {_between(field)}")
            elif _VNODE.match(field.path):
                yield _finding(group.tier, field, about, f"moving vNode {_between(field)}")


def _finding(tier: str, field: FieldChange, about: str, what: str) -> Finding:
    return Finding(
        reason="RuntimeIsolationUnproven",
        message=f"{what} in tier `{tier}`: its pods are isolated by vNode, which runs on containerd 1.7 and 2.0 only",
        hint="see that nodes still come with one of them and with kernel 6.1 or later, and move one endpoint first",
        severity=Severity.WARNING,
        object=about,
        field=field.path,
    )


def _between(field: FieldChange) -> str:
    before, after = (str(value).strip('"') for value in (field.before, field.after))
    return f"from `{before}` to `{after}`"


def _uses_vnode(found: Object) -> bool:
    spec = found.get("spec") or {}
    if found.get("kind") == "ArgoCDApplicationTemplate":
        sources = ((spec.get("template") or {}).get("spec") or {}).get("sources") or []
        return any(str(source.get("chart", "")).startswith("vnode") for source in sources)
    if found.get("kind") == "VirtualClusterTemplate":
        return any(
            _SANDBOX.search(str(((version.get("template") or {}).get("helmRelease") or {}).get("values", "")))
            for version in spec.get("versions") or []
        )
    return False
