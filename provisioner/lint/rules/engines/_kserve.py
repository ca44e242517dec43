"""What the rules about KServe have in common: its prefix, the parts of an InferenceService, which objects are some."""

from __future__ import annotations

from collections.abc import Iterator

from provisioner.lint.world import Object, World

PREFIX = "serving.kserve.io/"
"""Of its annotations."""
PARTS = ("predictor", "transformer", "explainer")
"""What an InferenceService deploys."""


def inference_services(world: World) -> Iterator[Object]:
    """The InferenceServices of KServe."""
    return (found for found in world.of_kind("InferenceService") if found.group == "serving.kserve.io")
