"""Settings of Argo CD itself: its policies, and the Secrets that hold repositories and clusters.

Sources: Argo CD's operator manual, "RBAC Configuration", "Declarative Setup" and "Resource Tracking".
"""

from __future__ import annotations

import csv
from collections.abc import Iterator

from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, mapping, text
from provisioner.lint.world import Object, World

_TYPE_LABEL = "argocd.argoproj.io/secret-type"
_TYPES = ("cluster", "repository", "repo-creds", "repository-write", "repo-write-creds")
_RESOURCES = (
    *("applications", "applicationsets", "clusters", "projects", "repositories", "write-repositories"),
    *("accounts", "certificates", "gpgkeys", "logs", "exec", "extensions"),
)
_ACTIONS = ("get", "create", "update", "delete", "sync", "override", "action", "invoke")
_POLICY_PARTS = 6
_WORDS = {
    "application.resourceTrackingMethod": ("annotation", "label", "annotation+label"),
    "exec.enabled": ("true", "false"),
    "server.rbac.disableApplicationFineGrainedRBACInheritance": ("true", "false"),
    "resource.respectRBAC": ("normal", "strict"),
}
"""Entries of `argocd-cm` that have words of their own."""


def _config_maps(world: World, name: str) -> Iterator[Object]:
    return (found for found in world.of_kind("ConfigMap") if found.name == name)


@rule("argocd-policy-malformed", Severity.ERROR)
def argocd_policy_malformed(world: World) -> Iterator[Hit]:
    """A line of Argo CD's policies does not have the parts that it must have, or a word that Argo CD does not know.

    A permission is `p, subject, resource, action, object, effect`, with allow or deny at the end; a membership is `g,
    who, role`. What is left out is not filled in: nobody gets the permission, and one wrong line can spoil the others.
    """
    for found in _config_maps(world, "argocd-rbac-cm"):
        for key, written in mapping(found.value, "data").items():
            if isinstance(written, str) and key.startswith("policy.") and key.endswith("csv") and not has_hole(written):
                for line in written.splitlines():
                    if (fault := _fault(line)) is not None:
                        message = f"granting access: {fault[0]}: `{line.strip()}`"
                        yield Hit(at=found, path=("data", key), message=message, fix=fault[1])


def _fault(line: str) -> tuple[str, str] | None:
    """What is wrong with a line of policies, and what to do."""
    if not line.strip() or line.lstrip().startswith("#"):
        return None
    parts = [part.strip() for part in next(csv.reader([line], skipinitialspace=True))]
    if parts[0] == "g":
        return None if len(parts) >= 3 else ("a membership has two names after `g`", "write `g, who, role:name`")
    if parts[0] != "p":
        return ("a line begins with `p` or `g`", "write `p, role:name, applications, get, project/*, allow`")
    if len(parts) != _POLICY_PARTS:
        lacks = len(parts) == _POLICY_PARTS - 1 and parts[-1] not in ("allow", "deny")
        return (
            f"a permission has 6 parts, found {len(parts)}",
            "add `, allow` at the end" if lacks else "write `p, subject, resource, action, object, allow`",
        )
    _, _, resource, action, _, effect = parts
    if effect not in ("allow", "deny"):
        return ("the effect is allow or deny", "write allow or deny at the end")
    if "*" not in resource and resource not in _RESOURCES:
        near = nearest_name(resource, _RESOURCES)
        return ("there is no such resource", f"did you mean {near}?" if near else f"use: {', '.join(_RESOURCES)}")
    head = action.partition("/")[0]
    if "*" not in head and head not in _ACTIONS:
        near = nearest_name(head, _ACTIONS)
        return ("there is no such action", f"did you mean {near}?" if near else f"use: {', '.join(_ACTIONS)}")
    return None


@rule("argocd-secret-type-unknown", Severity.ERROR)
def argocd_secret_type_unknown(world: World) -> Iterator[Hit]:
    """A Secret for Argo CD has a type that Argo CD does not know, so nobody reads it.

    The label `argocd.argoproj.io/secret-type` is cluster, repository or repo-creds. With anything else the repository
    or cluster is not there: `repository not accessible`, `there are no clusters with this name`.
    """
    for found in world.of_kind("Secret"):
        kind = found.labels.get(_TYPE_LABEL)
        if kind is not None and kind not in _TYPES and not has_hole(kind):
            near = nearest_name(kind, _TYPES) or ("repository" if kind.startswith("repo") else None)
            message = f"connecting Argo CD: there is no such type of Secret: `{kind}`"
            fix = f"did you mean {near}?" if near else f"write one of: {', '.join(_TYPES[:3])}"
            yield Hit(at=found, path=("metadata", "labels", _TYPE_LABEL), message=message, fix=fix)


@rule("argocd-setting-word-unknown", Severity.ERROR)
def argocd_setting_word_unknown(world: World) -> Iterator[Hit]:
    """A setting in `argocd-cm` has a word that Argo CD does not know.

    Argo CD goes on with what such a word happens to mean: with an unknown tracking method it may lose sight of what it
    has delivered.
    """
    for found in _config_maps(world, "argocd-cm"):
        for key, words in _WORDS.items():
            written = text(found.value, "data", key)
            if written and written not in words and not has_hole(written):
                near = nearest_name(written, words)
                message = f"setting up Argo CD: {key} cannot be `{written}`"
                fix = f"did you mean {near}?" if near else f"write one of: {', '.join(words)}"
                yield Hit(at=found, path=("data", key), message=message, fix=fix)
