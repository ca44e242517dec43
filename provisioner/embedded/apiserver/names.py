"""Names that the public definitions leave out: short names of built-in kinds, the category `all`, what a name may be.

`kinds` puts the first two into discovery, so that kubectl understands `po` and `get all`; `lifecycle` asks whether a
name is well formed. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

SHORT_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "certificatesigningrequests": ("csr",),
    "configmaps": ("cm",),
    "cronjobs": ("cj",),
    "customresourcedefinitions": ("crd", "crds"),
    "daemonsets": ("ds",),
    "deployments": ("deploy",),
    "endpoints": ("ep",),
    "events": ("ev",),
    "horizontalpodautoscalers": ("hpa",),
    "ingresses": ("ing",),
    "limitranges": ("limits",),
    "namespaces": ("ns",),
    "networkpolicies": ("netpol",),
    "nodes": ("no",),
    "persistentvolumeclaims": ("pvc",),
    "persistentvolumes": ("pv",),
    "poddisruptionbudgets": ("pdb",),
    "pods": ("po",),
    "priorityclasses": ("pc",),
    "replicasets": ("rs",),
    "replicationcontrollers": ("rc",),
    "resourcequotas": ("quota",),
    "serviceaccounts": ("sa",),
    "services": ("svc",),
    "statefulsets": ("sts",),
    "storageclasses": ("sc",),
}
ALL_CATEGORY: Final = frozenset(
    [
        "pods",
        "replicationcontrollers",
        "services",
        "daemonsets",
        "deployments",
        "replicasets",
        "statefulsets",
        "horizontalpodautoscalers",
        "jobs",
        "cronjobs",
    ]
)

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_LABEL = re.compile(_LABEL)
_DNS_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character"
)
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character"
)
_KEY_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character, with an optional DNS subdomain prefix and '/'"
)
_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character"
)
_PATH_RULE = "may not be '.' or '..' and may not contain '/' or '%'"


def name_fault(name: str, *, group: str, plural: str) -> str | None:
    """What is wrong with an object's name, or None. Access rules may have any path segment, namespaces only a label."""
    if group == "rbac.authorization.k8s.io":
        return _PATH_RULE if name in (".", "..") or "/" in name or "%" in name else None
    if not group and plural in ("namespaces", "services"):
        return None if len(name) <= 63 and _DNS_LABEL.fullmatch(name) else _LABEL_RULE
    return None if len(name) <= 253 and _DNS_SUBDOMAIN.fullmatch(name) else _SUBDOMAIN_RULE


def label_key_fault(key: str) -> str | None:
    """What is wrong with a label's key, or None: a name of 63 characters with an optional DNS prefix."""
    prefix, slash, name = key.rpartition("/")
    named = 0 < len(name) <= 63 and _LABEL_VALUE.fullmatch(name)
    prefixed = not slash or (0 < len(prefix) <= 253 and _DNS_SUBDOMAIN.fullmatch(prefix))
    return None if named and prefixed else _KEY_RULE


def label_value_fault(value: str) -> str | None:
    """What is wrong with a label's value, or None: at most 63 characters."""
    return None if len(value) <= 63 and _LABEL_VALUE.fullmatch(value) else _VALUE_RULE
