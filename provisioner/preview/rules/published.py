"""What a change of an object on the control plane cluster does to endpoints: templates, providers, projects, instances.

Sources: [P] vCluster Platform's documentation of template versioning, Argo CD integration, Stacks and Auto Nodes;
[D] how our own lifecycle acts: an instance pins a version, and its parameters change with a roll-out only. Without a
mark: the worst that is plausible.
"""

from __future__ import annotations

from provisioner.preview.effect import Effect, Rule, Way, rule
from provisioner.preview.rules.values import DRIFT, STEERS

VERSION = "TemplateVersion"
"""Stands as kind for one entry of a template's `spec.versions`, without its values and objects."""
UNREADABLE = "UnreadableObjects"
"""Stands as kind for the objects of a version where not every document is one."""
NO_OBJECTS = "not every document in it is a Kubernetes object: no tenant cluster can take it"

_PLATFORM = (
    "VirtualClusterTemplate VirtualClusterInstance ArgoCDApplicationTemplate ArgoCDApplication StackTemplate "
    "StackInstance NodeProvider NodeProfile Project"
)
_PROSE = r"(metadata\.(labels|annotations)|spec\.(displayName|description|owner|access|members))"
_SOURCES = r"spec\.template\.spec\.sources?"
_BESIDE = (
    r"\[(cert-manager|cilium|dcgm-exporter|external-secrets|keda|kueue|prometheus(-adapter)?)\]"
    r"\.(targetRevision|repoURL|helm\.(values|valuesObject|parameters))"
)
"""Components that can be away for a while without a pod noticing: they act on objects, measure, or (Cilium) leave what
they set up in the kernel."""
_TYPE = r"spec\.(\w+\.)?nodeTypes\[[^]]*\]"
_ASKED = "the Platform asks for machines in another way; those that stand are kept"
_WORDS_ONLY = "words and labels only"
_UNUSED = "nothing uses it yet"
_NOT_RENDERED = "those that do not give the parameter are not rendered again"
_FROZEN = "what was made from it stays, and cannot be changed any more"
_DELETED = "all that it delivered is deleted, volumes too"

PUBLISHED_RULES: tuple[Rule, ...] = (
    rule(_PLATFORM, _PROSE, Effect.NOTHING, _WORDS_ONLY),
    # [P] an instance pins a version; an edit of that version in place reaches it at once.
    rule(VERSION, r"$", Effect.NEW_VERSION, "tenant clusters stay at the version that they pin", way=Way.ADDED),
    rule(VERSION, r"$", Effect.NOTHING, f"{_FROZEN}: VersionNotFound", way=Way.REMOVED),
    rule(VERSION, r"template\.helmRelease\.chart\.(name|repo)", Effect.TENANT_RECREATED, "another chart"),
    rule(VERSION, r"template\.helmRelease\.chart", Effect.CONFIG_RELOAD, "the tenant's control plane is upgraded"),
    rule(VERSION, r"template\.(metadata|instanceTemplate)\b", Effect.NOTHING, _WORDS_ONLY),
    rule(VERSION, r"template\.spaceTemplate", Effect.CONFIG_RELOAD, "objects beside the tenant's control plane change"),
    rule(VERSION, r"parameters\[[^]]*\]\.", Effect.NOTHING, "it is asked of tenant clusters that are made later"),
    rule(VERSION, r"parameters", Effect.CONFIG_RELOAD, _NOT_RENDERED),
    rule(UNREADABLE, r"", Effect.PODS_RESTART, NO_OBJECTS),
    rule("VirtualClusterTemplate", r"$", Effect.NOTHING, _UNUSED, way=Way.ADDED),
    rule("VirtualClusterTemplate", r"$", Effect.NOTHING, f"{_FROZEN}: TemplateNotFound", way=Way.REMOVED),
    # [P] Application templates have no versions: what is made from them follows.
    rule("ArgoCDApplicationTemplate StackTemplate", r"$", Effect.NOTHING, _UNUSED, way=Way.ADDED),
    rule("ArgoCDApplicationTemplate StackTemplate", r"$", Effect.NOTHING, f"{_FROZEN}: TemplateNotFound"),
    rule(
        "ArgoCDApplicationTemplate",
        _SOURCES + r"(\[[^]]*\])?$",
        Effect.PODS_RESTART,
        "one more component",
        way=Way.ADDED,
    ),
    rule(
        "ArgoCDApplicationTemplate",
        _SOURCES + r"(\[[^]]*\])?$",
        Effect.DATA_LOST,
        "the component is pruned with all that it keeps",
        way=Way.REMOVED,
    ),
    rule(
        "ArgoCDApplicationTemplate",
        _SOURCES + r"\[vnode",
        Effect.PODS_RESTART,
        "a restart of vNode restarts every pod in it",
    ),
    rule("ArgoCDApplicationTemplate", _SOURCES + r"\[envoy", Effect.PODS_RESTART, "its proxies restart: streams end"),
    rule("ArgoCDApplicationTemplate", _SOURCES + _BESIDE, Effect.CONFIG_RELOAD, "it restarts beside what serves"),
    rule("ArgoCDApplicationTemplate", _SOURCES, Effect.PODS_RESTART, "components restart; drivers drain GPUs first"),
    rule(
        "ArgoCDApplicationTemplate", r"spec\.template\.spec\.destination", Effect.DATA_LOST, "it moves to another place"
    ),
    rule("ArgoCDApplicationTemplate", r"spec\.template\.", Effect.CONFIG_RELOAD, "Argo CD syncs in another way"),
    rule("ArgoCDApplicationTemplate StackTemplate", r"spec\.parameters", Effect.CONFIG_RELOAD, _NOT_RENDERED),
    rule("StackTemplate", r"spec\.tasks\[[^]]*\]$", Effect.DATA_LOST, _DELETED, way=Way.REMOVED),
    rule(
        "StackTemplate",
        r"spec\.tasks\[[^]]*\]\.(timeout|dependsOn)",
        Effect.CONFIG_RELOAD,
        "later syncs wait otherwise",
    ),
    # [P] Auto Nodes take the cheapest type that fits; a type's machines are compared with what it says.
    rule("NodeProvider NodeProfile", r"$", Effect.NOTHING, _UNUSED, way=Way.ADDED),
    rule("NodeProvider", r"$", Effect.NODES_REPLACED, "nodes that go do not come back", way=Way.REMOVED),
    rule("NodeProvider", _TYPE + "$", Effect.NOTHING, "one more node type", way=Way.ADDED),
    rule("NodeProvider", _TYPE + "$", Effect.NODES_REPLACED, "nodes that go do not come back"),
    rule("NodeProvider", _TYPE + r"\.(cost|displayName|maxCapacity|metadata)\b", Effect.NOTHING, STEERS),
    rule("NodeProvider", r"spec\..*\bgit\.(credentials|fetchInterval)\b", Effect.NOTHING, STEERS),
    rule("NodeProvider", r"spec\..*[nN]ode(Environment)?Template\..*\btimeout$", Effect.NOTHING, STEERS),
    rule("NodeProvider", r"spec\.\w+\.deploy\b", Effect.CONFIG_RELOAD, "what makes machines changes; they are kept"),
    rule("NodeProvider", r"spec\.\w+\.(endpoint|netris|secretRef)\b", Effect.CONFIG_RELOAD, _ASKED),
    rule("NodeProvider", r"", Effect.NODES_REPLACED, "nodes are compared with it, and made anew"),
    rule("NodeProfile", r"", Effect.NODES_REPLACED, DRIFT),
    rule("Project", r"$", Effect.NOTHING, "a new tenant", way=Way.ADDED),
    rule("Project", r"$", Effect.DATA_LOST, "everything of the tenant goes with its project", way=Way.REMOVED),
    rule("Project", r"spec\.namespacePattern", Effect.TENANT_RECREATED, "tenant clusters stand in another namespace"),
    rule("Project", r"", Effect.NOTHING, "what runs is kept; later requests are judged by it"),
    # [D] parameters reach an instance with its next roll-out; [P] what placed it is fixed.
    rule("VirtualClusterInstance", r"$", Effect.NOTHING, "a new tenant cluster", way=Way.ADDED),
    rule("VirtualClusterInstance", r"$", Effect.DATA_LOST, "the tenant cluster goes with all in it", way=Way.REMOVED),
    rule(
        "VirtualClusterInstance", r"spec\.templateRef\.version", Effect.NEW_VERSION, "it stays at the version it pins"
    ),
    rule(
        "VirtualClusterInstance", r"spec\.parameters>nodes\b", Effect.CONFIG_RELOAD, "more nodes join", way=Way.RAISED
    ),
    rule("VirtualClusterInstance", r"spec\.parameters>burstNodes\b", Effect.CONFIG_RELOAD, STEERS),
    rule("VirtualClusterInstance", r"spec\.parameters>(nodes|nodeType)\b", Effect.NODES_REPLACED, DRIFT),
    rule("VirtualClusterInstance", r"spec\.", Effect.TENANT_RECREATED, "what places a tenant cluster is fixed"),
    rule("ArgoCDApplication StackInstance", r"$", Effect.CONFIG_RELOAD, "Argo CD delivers more", way=Way.ADDED),
    rule("ArgoCDApplication StackInstance", r"$", Effect.DATA_LOST, _DELETED, way=Way.REMOVED),
    rule("ArgoCDApplication StackInstance", r"spec\.destination", Effect.DATA_LOST, "it moves to another place"),
)
