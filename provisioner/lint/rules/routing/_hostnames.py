"""What hostnames mean: whether a text is one, and whether two of them have a name in common. Pure; no rules stand here.

The form is that of Gateway API and of Ingress: a DNS name in small letters, before which `*.` may stand.
"""

from __future__ import annotations

import re
from ipaddress import ip_address

_HOSTNAME = re.compile(r"(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_MAX_HOSTNAME, _MAX_LABEL = 253, 63


def hosts_meet(one: str | None, other: str | None) -> bool:
    """Whether two hostnames, of which `*.` may begin each, have a name in common; None is every name."""
    if one is None or other is None or one == other:
        return True
    one, other = one.lower(), other.lower()
    if one.startswith("*.") and other.startswith("*."):
        return one.endswith(other[1:]) or other.endswith(one[1:])
    if one.startswith("*."):
        return other.endswith(one[1:]) and len(other) > len(one) - 1
    return other.startswith("*.") and hosts_meet(other, one)


def hostname_fault(value: str) -> tuple[str, str] | None:
    """What is wrong with a hostname and what to write instead; None for a sound one."""
    if "://" in value or "/" in value:
        return "it is a URL or has a path", f"write `{value.split('://')[-1].split('/')[0].split(':')[0].lower()}`"
    if _is_address(value):
        return "it is an IP address", "write a DNS name, or leave the hostname out"
    if re.search(r":[0-9]+$", value):
        return "it has a port", f"write `{value.rpartition(':')[0]}`; the port belongs to the listener"
    if value == "*":
        return "a wildcard needs a domain", "leave the hostname out to answer for every name"
    if "*" in value and ("*" in value[1:] or not value.startswith("*.")):
        return "`*.` may stand only at its beginning", "write `*.` and the domain"
    if value != value.lower():
        return "it has capitals", f"write `{value.lower()}`"
    if value.endswith("."):
        return "it ends in a dot", f"write `{value.rstrip('.')}`"
    if len(value) > _MAX_HOSTNAME or any(len(label) > _MAX_LABEL for label in value.split(".")):
        return f"it, or a label of it, is longer than {_MAX_HOSTNAME} or {_MAX_LABEL}", "shorten it"
    return None if _HOSTNAME.fullmatch(value) else ("it is no DNS name", "use letters, digits, `-` and dots")


def _is_address(value: str) -> bool:
    try:
        ip_address(value.strip("[]"))
    except ValueError:
        return False
    return True
