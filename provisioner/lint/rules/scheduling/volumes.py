"""Claims against the storage that is to make their volumes."""

from __future__ import annotations

from collections.abc import Iterator

from provisioner.domain.finding import Severity
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import items, literal, look
from provisioner.lint.world import World

_ONE_NODE = {
    "disk.csi.azure.com": "Azure disks",
    "ebs.csi.aws.com": "EBS volumes",
    "kubernetes.io/aws-ebs": "EBS volumes",
    "kubernetes.io/azure-disk": "Azure disks",
    "kubernetes.io/gce-pd": "persistent disks of Google",
    "pd.csi.storage.gke.io": "persistent disks of Google",
    "rbd.csi.ceph.com": "RBD images",
}
"""Provisioners of block devices, which hold a file system for one node at a time (their own documentation)."""
_RBD = "RBD images"


@rule("claim-mode-against-storage", Severity.ERROR)
def claim_mode_against_storage(world: World) -> Iterator[Hit]:
    """A claim wants a file system that several nodes write to, of storage that gives block devices.

    The volume is never made (or never mounted a second time), and the pods stay Pending. ReadWriteMany needs a file
    store, such as EFS, Filestore, Azure Files, CephFS or NFS.
    """
    for claim in world.of_kind("PersistentVolumeClaim"):
        storage = world.find("StorageClass", literal(claim.value, "spec", "storageClassName") or "")
        provisioner = literal(storage.value, "provisioner") or "" if storage else ""
        made = _ONE_NODE.get(provisioner) or (_RBD if provisioner.endswith(".rbd.csi.ceph.com") else None)
        modes = [mode for _, mode in items(claim.value, "spec", "accessModes")]
        if made and "ReadWriteMany" in modes and look(claim.value, "spec", "volumeMode") in (None, "Filesystem"):
            message = f"claiming volume: {made} are for one node, and the mode is `ReadWriteMany`"
            fix = "use a class of a file store, or ReadWriteOnce"
            yield Hit(at=claim, path=("spec", "accessModes"), message=message, fix=fix)
