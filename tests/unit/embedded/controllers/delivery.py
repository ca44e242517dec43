"""Commits to a bare repository, for tests that need something to be delivered."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

_ENVIRONMENT = {
    "PATH": os.environ.get("PATH", os.defpath),
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "acme",
    "GIT_AUTHOR_EMAIL": "acme@example.com",
    "GIT_COMMITTER_NAME": "acme",
    "GIT_COMMITTER_EMAIL": "acme@example.com",
}


def commit(repository: Path, branch: str, files: Mapping[str, str]) -> str:
    """Make the branch hold exactly these files; returns the commit."""
    with tempfile.TemporaryDirectory() as index_folder:
        environment = _ENVIRONMENT | {"GIT_INDEX_FILE": f"{index_folder}/index"}

        def git(*arguments: str, stdin: str | None = None) -> str:
            command = ["git", f"--git-dir={repository}", *arguments]
            return subprocess.run(
                command, input=stdin, env=environment, check=True, capture_output=True, text=True
            ).stdout.strip()

        for path, content in files.items():
            blob = git("hash-object", "-w", "--stdin", stdin=content)
            git("update-index", "--add", "--cacheinfo", f"100644,{blob},{path}")
        tree = git("write-tree")
        parents = git("for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}").split()
        made = git("commit-tree", tree, *(part for parent in parents for part in ("-p", parent)), "-m", "deliver")
        git("update-ref", f"refs/heads/{branch}", made)
        return made
