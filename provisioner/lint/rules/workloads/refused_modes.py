"""File modes of volumes that cannot be, as YAML reads them.

Sources: the API server's validation (`must be a number between 0 and 0777`), YAML 1.1's octal numbers.
"""

from __future__ import annotations

from collections.abc import Iterator

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import items, look, whole
from provisioner.lint.world import PodTemplate, World

_MOST = 0o777
_SOURCES = ("configMap", "secret", "projected", "downwardAPI")


def _modes(pod: PodTemplate) -> Iterator[tuple[FieldPath, int]]:
    for path, volume in items(pod.spec, "volumes"):
        for source in _SOURCES:
            mode = whole(volume, source, "defaultMode")
            if mode is not None:
                yield pod.at(*path, source, "defaultMode"), mode
            for place, item in items(volume, source, "items"):
                mode = whole(item, "mode")
                if mode is not None and look(volume, source):
                    yield pod.at(*path, *place, "mode"), mode


@rule("file-mode-refused", Severity.ERROR)
def file_mode_refused(world: World) -> Iterator[Hit]:
    """The mode of a volume's files is written in decimal, so it is another one than meant, or none at all.

    `755` is 0o1363, above 0o777, and refused; `644` would be. Octal numbers of YAML 1.1, which Kubernetes reads, begin
    with a zero: `0755`; in JSON it is 493.
    """
    for pod in world.pods:
        for path, mode in _modes(pod):
            if not 0 <= mode <= _MOST:
                digits = str(mode)
                is_octal = len(digits) == 3 and set(digits) <= set("01234567")
                message = f"setting mode of files: it goes from 0 to 0777, found `{mode}`, which is 0{mode:o}"
                fix = f"write 0{digits}" if is_octal else "write an octal number such as 0644"
                yield Hit(at=pod.owner, path=path, message=message, fix=fix)
