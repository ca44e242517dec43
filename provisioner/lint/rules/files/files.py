"""What is wrong with files themselves."""

from __future__ import annotations

from collections.abc import Iterator

from provisioner.domain.finding import Severity
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.files._oddities import hits
from provisioner.lint.world import World


@rule("file-unreadable", Severity.ERROR)
def unreadable(world: World) -> Iterator[Hit]:
    """A path or a file cannot be read.

    It is missing, access is denied, a link leads nowhere or in circles, or it is a socket or a pipe. What is not read
    is not checked, so this is an error.
    """
    yield from hits(world, "file-unreadable")


@rule("file-link-loop", Severity.WARNING)
def link_loop(world: World) -> Iterator[Hit]:
    """A link to a folder leads back to a folder around it.

    Tools that follow links never come to an end there, or read the same manifests many times.
    """
    yield from hits(world, "file-link-loop")


@rule("file-too-large", Severity.ERROR)
def too_large(world: World) -> Iterator[Hit]:
    """A file is larger than any set of manifests should be.

    Files over 32 MiB are not read. Argo CD refuses to render more than 10 MB of plain manifests of one application
    unless told otherwise (`reposerver.max.combined.directory.manifests.size`).
    """
    yield from hits(world, "file-too-large")


@rule("file-encoding", Severity.ERROR)
def encoding(world: World) -> Iterator[Hit]:
    """A file is not UTF-8.

    `kubectl`, Helm and Argo CD read UTF-8. Some editors and PowerShell's `>` write UTF-16.
    """
    yield from hits(world, "file-encoding")
