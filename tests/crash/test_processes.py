"""SIGKILL of the real processes of an installation while it works: the end is as if nobody had been killed.

The normal run kills each process at a third of the boundaries between stages and at some random moments; with
TENANTRY_SOAK it is all boundaries and TENANTRY_SOAK random rounds.
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
from collections.abc import Collection, Iterator
from contextlib import suppress

import pytest

from provisioner.cli.demo import ensure_endpoint
from provisioner.cli.session import call_api
from provisioner.client import endpoint_calls, key_calls, tenant_calls
from provisioner.domain.conditions import StageName
from provisioner.domain.errors import RetryableError
from provisioner.wire.operation import OperationView
from tests.crash.installation import ENGINE, VICTIMS, Installation, Seen, running
from tests.crash.quick_tenantry import COMMAND

pytestmark = pytest.mark.timeout(3600 if os.environ.get("TENANTRY_SOAK") else 240)

SOAK = int(os.environ.get("TENANTRY_SOAK", "0"))
ROUNDS = range(SOAK or 1)
STAGES = [stage.value for stage in StageName]
WITH_ENGINE = {"argo_sync", "route", "loading"}
DELETION = ("withdraw", "release", "clean")
TENANT = ("ensure_projects", "confirm")


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """The processes, with tenant acme."""
    with asyncio.Runner() as runner:
        opened = running(tmp_path_factory.mktemp("state"))
        yield runner.run(opened.__aenter__())
        runner.run(opened.__aexit__(None, None, None))


@pytest.fixture(scope="module")
def secret(installation: Installation) -> str:
    """A key of the tenant."""
    return asyncio.run(installation.create_key())


def boundaries(victim: str) -> set[str]:
    """After which stages of a create a victim is killed: in the normal run each is somebody's."""
    if victim == ENGINE:
        return WITH_ENGINE
    return set(STAGES) if SOAK else set(STAGES[VICTIMS.index(victim) :: 3])


def killing_at(installation: Installation, victim: str, moments: Collection[str]) -> Seen:
    """Kills the victim whenever one of the moments, a stage that is done or a step that has begun, is first seen."""
    left = set(moments)

    async def seen(view: OperationView) -> None:
        done = {stage.name for stage in view.stages if stage.state == "done"}
        reached = left & (done | {step.name for step in view.steps})
        if reached:
            left.difference_update(reached)
            await installation.kill(victim)

    return seen


async def killing_at_random(installation: Installation, random_: random.Random, *, kills: int) -> None:
    """Kills somebody again and again, after pauses that spread over everything that happens in them."""
    for _ in range(kills):
        await asyncio.sleep(random_.uniform(0.0, 1.5))
        await installation.kill(random_.choice(VICTIMS))


@pytest.mark.parametrize("victim", VICTIMS)
async def test_create_ends_well_when_a_process_is_killed_at_stage_boundaries(
    installation: Installation, secret: str, victim: str
) -> None:
    """Ledger: OPS-07, LIF-12"""
    before = installation.kills[victim]
    endpoint, operation = await installation.create("chat", killing_at(installation, victim, boundaries(victim)))
    assert operation.state == "succeeded", operation
    assert installation.kills[victim] > before
    await installation.require_one_of_each([endpoint])
    await installation.require_serving(endpoint, secret)

    gone = await installation.delete(endpoint, killing_at(installation, victim, DELETION if SOAK else DELETION[:1]))
    assert gone.state == "succeeded", gone
    await installation.require_nothing()


@pytest.mark.parametrize("seed", ROUNDS)
async def test_several_endpoints_come_and_go_while_processes_are_killed_at_random(
    installation: Installation, secret: str, seed: int
) -> None:
    """Ledger: OPS-07, LIF-12"""
    dice, names, kills = random.Random(seed), ("one", "two", "three"), 12 if SOAK else 4
    made = asyncio.gather(*(installation.create(name) for name in names))
    await killing_at_random(installation, dice, kills=kills)
    endpoints = []
    for endpoint, operation in await made:
        assert operation.state == "succeeded", operation
        endpoints.append(endpoint)
    await installation.require_one_of_each(endpoints)
    for endpoint in endpoints:
        await installation.require_serving(endpoint, secret)

    gone = asyncio.gather(*(installation.delete(endpoint) for endpoint in endpoints))
    await killing_at_random(installation, dice, kills=kills // 2)
    assert {operation.state for operation in await gone} == {"succeeded"}
    await installation.require_nothing()


@pytest.mark.parametrize("victim", ["embedded", "serve"])
async def test_tenant_is_made_when_a_process_is_killed_meanwhile(installation: Installation, victim: str) -> None:
    moments = killing_at(installation, victim, TENANT if SOAK else TENANT[:1])
    operation = await installation.create_tenant(f"killed-{victim}", moments)
    assert operation.state == "succeeded", operation
    async with installation.client() as client:
        assert [
            tenant.ready
            for tenant in await client.collect(tenant_calls.list_tenants())
            if tenant.name == f"killed-{victim}"
        ] == [True]


async def test_every_key_that_was_handed_out_is_known_after_a_kill(installation: Installation) -> None:
    """A caller who got no answer has no secret; whatever was made for it can be listed and revoked."""
    handed_out: list[str] = []

    async def ask() -> None:
        async with installation.client() as client:
            with suppress(RetryableError):
                for number in range(4):  # more would be refused within a minute
                    name = f"many-{number}"
                    key = await client.send(
                        key_calls.create_key({"tenant": "acme", "name": name}, idempotency_key=name)
                    )
                    handed_out.append(key.key.id)

    asking = asyncio.create_task(ask())
    async with asyncio.timeout(30):
        while len(handed_out) < 2:
            await asyncio.sleep(0.01)
    await installation.kill("serve")
    await asking
    async with installation.client() as client:
        found = {key.id for key in await client.collect(key_calls.list_keys("acme")) if key.name.startswith("many-")}
        assert set(handed_out) <= found
        assert len(found) <= len(handed_out) + 1
        for key in found:
            await client.send(key_calls.revoke_key(key, idempotency_key=f"revoke-{key}"))


async def test_demo_goes_on_behind_a_deletion_that_was_killed(installation: Installation) -> None:
    first, _ = await installation.create("chat")
    async with installation.client() as client:
        await client.send(endpoint_calls.delete_endpoint(first, idempotency_key=f"cut-{first}"))
        await installation.kill("serve")
    second, _ = await asyncio.to_thread(call_api, installation.laptop.settings, ensure_endpoint)
    assert second.phase == "Ready"
    assert second.id != first
    await installation.require_one_of_each([second.id])
    await installation.delete(second.id)


def test_second_control_plane_on_the_same_state_says_so_and_touches_nothing(installation: Installation) -> None:
    site = installation.laptop.settings.site
    before = site.stat().st_mtime_ns
    second = subprocess.run(
        [*COMMAND, "embedded", "--state", str(installation.state), "--port", "0"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert second.returncode == 1
    assert "another process holds it" in second.stderr and "hint: " in second.stderr
    assert site.stat().st_mtime_ns == before
