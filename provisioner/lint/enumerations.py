"""Words that built-in kinds allow in fields whose public schema says only `string`.

From the API reference of Kubernetes; the API server checks them in code. Pure data, read by `schemas`.
"""

from __future__ import annotations

from collections.abc import Mapping

_CORE = "io.k8s.api.core.v1."
_APPS = "io.k8s.api.apps.v1."
_NETWORKING = "io.k8s.api.networking.v1."

_PROTOCOLS = ("TCP", "UDP", "SCTP")
_SELECTOR_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_ACCESS_MODES = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")
_TRAFFIC = ("Cluster", "Local")
_CONTAINER = {
    "imagePullPolicy": ("Always", "IfNotPresent", "Never"),
    "terminationMessagePolicy": ("File", "FallbackToLogsOnError"),
}

ALLOWED: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    f"{_CORE}Container": _CONTAINER,
    f"{_CORE}ContainerPort": {"protocol": _PROTOCOLS},
    f"{_CORE}HTTPGetAction": {"scheme": ("HTTP", "HTTPS")},
    f"{_CORE}PodSpec": {
        "dnsPolicy": ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),
        "preemptionPolicy": ("Never", "PreemptLowerPriority"),
        "restartPolicy": ("Always", "OnFailure", "Never"),
    },
    f"{_CORE}EmptyDirVolumeSource": {"medium": ("", "Memory", "HugePages", "HugePages-2Mi", "HugePages-1Gi")},
    f"{_CORE}HostPathVolumeSource": {
        "type": (
            *("", "DirectoryOrCreate", "Directory", "FileOrCreate"),
            *("File", "Socket", "CharDevice", "BlockDevice"),
        )
    },
    f"{_CORE}Toleration": {
        "effect": ("", "NoSchedule", "PreferNoSchedule", "NoExecute"),
        "operator": ("Exists", "Equal", "Lt", "Gt"),
    },
    f"{_CORE}Taint": {"effect": ("NoSchedule", "PreferNoSchedule", "NoExecute")},
    f"{_CORE}TopologySpreadConstraint": {
        "nodeAffinityPolicy": ("Honor", "Ignore"),
        "nodeTaintsPolicy": ("Honor", "Ignore"),
        "whenUnsatisfiable": ("DoNotSchedule", "ScheduleAnyway"),
    },
    f"{_CORE}NodeSelectorRequirement": {"operator": (*_SELECTOR_OPERATORS, "Gt", "Lt")},
    "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelectorRequirement": {"operator": _SELECTOR_OPERATORS},
    f"{_CORE}ServicePort": {"protocol": _PROTOCOLS},
    f"{_CORE}ServiceSpec": {
        "externalTrafficPolicy": _TRAFFIC,
        "internalTrafficPolicy": _TRAFFIC,
        "ipFamilyPolicy": ("SingleStack", "PreferDualStack", "RequireDualStack"),
        "sessionAffinity": ("None", "ClientIP"),
        "type": ("ClusterIP", "NodePort", "LoadBalancer", "ExternalName"),
    },
    f"{_CORE}PersistentVolumeClaimSpec": {"accessModes": _ACCESS_MODES, "volumeMode": ("Filesystem", "Block")},
    f"{_CORE}PersistentVolumeSpec": {
        "accessModes": _ACCESS_MODES,
        "persistentVolumeReclaimPolicy": ("Retain", "Delete", "Recycle"),
        "volumeMode": ("Filesystem", "Block"),
    },
    f"{_CORE}LimitRangeItem": {"type": ("Container", "Pod", "PersistentVolumeClaim")},
    f"{_CORE}SeccompProfile": {"type": ("RuntimeDefault", "Unconfined", "Localhost")},
    f"{_APPS}DeploymentStrategy": {"type": ("RollingUpdate", "Recreate")},
    f"{_APPS}DaemonSetUpdateStrategy": {"type": ("RollingUpdate", "OnDelete")},
    f"{_APPS}StatefulSetUpdateStrategy": {"type": ("RollingUpdate", "OnDelete")},
    f"{_APPS}StatefulSetSpec": {"podManagementPolicy": ("OrderedReady", "Parallel")},
    f"{_APPS}StatefulSetPersistentVolumeClaimRetentionPolicy": {
        "whenDeleted": ("Retain", "Delete"),
        "whenScaled": ("Retain", "Delete"),
    },
    "io.k8s.api.batch.v1.CronJobSpec": {"concurrencyPolicy": ("Allow", "Forbid", "Replace")},
    "io.k8s.api.batch.v1.JobSpec": {"completionMode": ("NonIndexed", "Indexed")},
    f"{_NETWORKING}HTTPIngressPath": {"pathType": ("Exact", "Prefix", "ImplementationSpecific")},
    f"{_NETWORKING}NetworkPolicyPort": {"protocol": _PROTOCOLS},
    f"{_NETWORKING}NetworkPolicySpec": {"policyTypes": ("Ingress", "Egress")},
    "io.k8s.api.policy.v1.PodDisruptionBudgetSpec": {"unhealthyPodEvictionPolicy": ("IfHealthyBudget", "AlwaysAllow")},
    "io.k8s.api.storage.v1.StorageClass": {
        "reclaimPolicy": ("Retain", "Delete", "Recycle"),
        "volumeBindingMode": ("Immediate", "WaitForFirstConsumer"),
    },
    "io.k8s.api.autoscaling.v2.MetricSpec": {
        "type": ("Resource", "Pods", "Object", "External", "ContainerResource"),
    },
    "io.k8s.api.autoscaling.v2.MetricTarget": {"type": ("Utilization", "Value", "AverageValue")},
    "io.k8s.api.autoscaling.v2.HPAScalingRules": {"selectPolicy": ("Max", "Min", "Disabled")},
    "io.k8s.api.autoscaling.v2.HPAScalingPolicy": {"type": ("Pods", "Percent")},
    "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicySpec": {"failurePolicy": ("Fail", "Ignore")},
    "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyBindingSpec": {
        "validationActions": ("Deny", "Warn", "Audit"),
    },
    "io.k8s.api.rbac.v1.Subject": {"kind": ("User", "Group", "ServiceAccount")},
}
"""Definition -> field -> words; for a list, what its items may be."""
