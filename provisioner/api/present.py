"""The catalog as it is now: the files that this process started with, and what the API said of models since.

Every process asks the database twice a second, at most, whether there is news; the one that was told `forget`s at once.
"""

from __future__ import annotations

import asyncio
import logging

from provisioner.api.readable import readable
from provisioner.catalog.catalog import Catalog
from provisioner.catalog.overlay import Overlay, lay_over
from provisioner.domain.finding import Severity
from provisioner.store.interface.models import ModelStore

KNOWN_SECONDS = 0.5
"""How long a catalog is believed without another look."""

_log = logging.getLogger(__name__)


class PresentCatalog:
    """The present catalog of a process."""

    def __init__(self, files: Catalog, models: ModelStore) -> None:
        self._files = files
        self._models = models
        self._overlay = Overlay(files, {})
        self._changes: int | None = None
        self._looked_at = -KNOWN_SECONDS
        self._forgotten = 0

    async def overlay(self) -> Overlay:
        """The catalog, and what there is to know about its models. Raises what the store does."""
        now, forgotten = asyncio.get_running_loop().time(), self._forgotten
        if now - self._looked_at < KNOWN_SECONDS:
            return self._overlay
        changes = await self._models.changes()
        overlay = self._overlay if changes == self._changes else await self._read()
        if forgotten == self._forgotten:  # else somebody changed a model while we looked, and was answered already
            if overlay is not self._overlay:
                self._tell(overlay)
            self._overlay, self._changes, self._looked_at = overlay, changes, now
        return overlay

    def forget(self) -> None:
        """Look anew: a model was changed in this process."""
        self._looked_at = -KNOWN_SECONDS
        self._forgotten += 1

    async def _read(self) -> Overlay:
        newest = readable(await self._models.newest())
        return lay_over(self._files, newest, await self._models.imported())

    def _tell(self, overlay: Overlay) -> None:
        """Log what was not known before."""
        for model, findings in overlay.findings.items():
            for finding in findings:
                if finding not in self._overlay.findings.get(model, ()):
                    level = logging.ERROR if finding.severity is Severity.ERROR else logging.WARNING
                    text = "model %s: %s"
                    _log.log(level, text, model, finding, extra={"action": "model_finding", "reason": finding.reason})
