"""Git repositories that hold the pack, to be changed and previewed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from provisioner.catalog.pack import models_root, pack_root
from provisioner.preview.report import Report, TierReport
from provisioner.preview.sides import Side
from provisioner.settings import read_settings
from provisioner.wiring.preview import Question, Talk, open_preview

MODELS = "provisioner/catalog/models"
_AUTHOR = ("-c", "user.name=acme", "-c", "user.email=acme@example.com", "-c", "commit.gpgsign=false")


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder; what it printed."""
    command = ["git", *_AUTHOR, *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def make_repository(folder: Path) -> Path:
    """A repository with the pack as its only commit on `main`."""
    for name in ("templates", "applications", "policies"):
        shutil.copytree(pack_root() / name, folder / name)
    shutil.copy(pack_root() / "versions.yaml", folder)
    shutil.copytree(models_root(), folder / MODELS)
    (folder / ".gitignore").write_text("*.swp\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "pack")
    return folder


@dataclass(frozen=True)
class Workplace:
    """A repository of one's own, a cache, and what was said about it."""

    folder: Path
    cache: Path
    told: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)

    @property
    def talk(self) -> Talk:
        """Keeps what is noted and what is done."""
        return Talk(note=self.told.append, doing=self.done.append)

    def edit(self, name: str, before: str, after: str) -> None:
        """Replace text that stands in a file."""
        path = self.folder / name
        text = path.read_text()
        assert before in text
        path.write_text(text.replace(before, after))

    def write(self, name: str, text: str) -> None:
        """Write a file."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def commit(self) -> str:
        """Commit everything; the SHA."""
        git(self.folder, "add", "-A")
        git(self.folder, "commit", "-q", "-m", "change")
        return git(self.folder, "rev-parse", "HEAD")

    def preview(
        self, *, environment: Mapping[str, str] | None = None, folder: Path | None = None, **asked: Any
    ) -> Report:
        """The report about what stands here."""
        there = {
            "XDG_CACHE_HOME": str(self.cache),
            "XDG_STATE_HOME": str(self.cache / "no-state"),
            **(environment or {}),
        }
        place = folder or self.folder
        with open_preview(read_settings(there), Question(**asked), folder=place, talk=self.talk) as change:
            return change.report()


def tiers(report: Report) -> dict[str, TierReport]:
    """The reports of tiers by name."""
    return {tier.name: tier for tier in report.tiers}


def failures(report: Report) -> dict[str, str]:
    """What could not be rendered: the first finding by tier."""
    return {tier.name: str(failure.findings[0]) for tier in report.tiers for failure in tier.failures}


Compared = Callable[[Side, Side], Report]
