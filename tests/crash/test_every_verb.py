"""Every verb under kills and cancels, generated from its steps: at every moment (before and after every step, guard,
outside write and row written) the end is that of an undisturbed run, and of a cancel nothing is left."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from provisioner.domain.operation import Verb
from provisioner.operations.cancel import NOT_CANCELLABLE
from provisioner.operations.step import Step
from provisioner.operations.verb import VerbDefinition
from tests.crash.harness import (
    Moments,
    Start,
    assert_cancelled_at_every_moment,
    assert_cancelling_survives_every_kill,
    assert_survives_every_kill,
)
from tests.crash.lives import LIVES

pytestmark = pytest.mark.timeout(600)  # hundreds of lives each, on a machine that may be busy

CANCELLABLE = [verb for verb in LIVES if verb not in NOT_CANCELLABLE]


async def definition_of(verb: Verb, start: Start) -> VerbDefinition[Any]:
    async with start(Moments()) as trial:
        return trial.verbs[verb]


def moments_of(steps: Sequence[Step[Any]]) -> set[str]:
    return {f"{when} {step.name}" for step in steps for when in ("before", "after")}


async def test_every_verb_that_workers_know_has_its_life_here(tmp_path: Path) -> None:
    known: set[Verb] = set()
    for one in (Verb.TENANT_CREATE, Verb.ENDPOINT_CREATE):
        async with (await LIVES[one](tmp_path))(Moments()) as trial:
            known |= set(trial.verbs)
    assert set(LIVES) == known


@pytest.mark.parametrize("verb", LIVES)
async def test_killed_at_every_moment_the_end_is_the_same_and_each_effect_happened_once(
    verb: Verb, tmp_path: Path
) -> None:
    """Ledger: OPS-05, OPS-07"""
    start = await LIVES[verb](tmp_path)
    steps = (await definition_of(verb, start)).steps
    assert moments_of(steps) <= set(await assert_survives_every_kill(start))


@pytest.mark.parametrize("verb", CANCELLABLE)
async def test_cancelled_at_every_moment_nothing_is_left(verb: Verb, tmp_path: Path) -> None:
    """Ledger: OPS-07"""
    await assert_cancelled_at_every_moment(await LIVES[verb](tmp_path))


@pytest.mark.parametrize("verb", CANCELLABLE)
async def test_killed_at_every_moment_of_a_cancel_nothing_is_left(verb: Verb, tmp_path: Path) -> None:
    """Ledger: OPS-07"""
    start = await LIVES[verb](tmp_path)
    steps = (await definition_of(verb, start)).cancel_steps
    assert steps is not None
    assert moments_of(steps) <= set(await assert_cancelling_survives_every_kill(start))
