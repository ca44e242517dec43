"""Priority is had by a signed assertion alone; whatever else is claimed changes nothing and goes no further."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import jwt
import pytest

from provisioner.domain.snapshot import QueueGroup, Snapshot, TenantTerms
from provisioner.gateway.config import Queueing
from tests.gateway.conftest import Stage, StageMaker
from tests.gateway.held import Crowd
from tests.gateway.stub import NOW, make_key, make_route, make_snapshot

KEY = b"identity-key-of-thirty-two-bytes"
SIGNED = Queueing(identity_key=KEY)
ANN = "Ann@Example.com"
OTHER_SECRET = "tnt-globex-secret"


def assertion(email: object = ANN, *, key: bytes = KEY, algorithm: str = "HS256", **claims: object) -> str:
    """A token that holds for five minutes, unless the claims say something else."""
    payload = {"aud": "model-router", "email": email, "exp": int(NOW.timestamp()) + 300, **claims}
    return jwt.encode({name: value for name, value in payload.items() if value is not None}, key, algorithm)


def claim(token: str, priority: str = "interactive", principal: str = ANN) -> dict[str, str]:
    """The three headers as a caller sends them: the principal is a digest, never the address."""
    digest = hashlib.sha256(principal.lower().encode()).hexdigest()
    return {"X-Inference-Priority": priority, "X-Inference-Principal": digest, "X-Inference-Identity": token}


def one_slot(stage: Stage, **parts: Any) -> Snapshot:
    """Routes of two tenants that share one slot."""
    routes = [replace(make_route(stage.backend, tenant=tenant), group="engine") for tenant in ("acme", "globex")]
    keys = (make_key(), make_key(OTHER_SECRET, tenant="globex"))
    groups = (QueueGroup(name="engine", slots=1),)
    return replace(make_snapshot(*routes, keys=keys, version=3), groups=groups, **parts)


async def order_of(stage: Stage, late: Mapping[str, str]) -> list[str]:
    """Who is served in which order: one runs, one waits as background, and one more comes with the headers `late`."""
    crowd = Crowd(stage)
    await crowd.send("runs")
    await crowd.send("waits")
    await crowd.send("late", headers=late)
    await crowd.finish()
    assert [(await crowd.answer(name)).status for name in crowd.sent] == [200] * 3
    return crowd.held.names


JUMPS = ["runs", "late", "waits"]
STAYS = ["runs", "waits", "late"]


def unsigned(header: Mapping[str, object]) -> str:
    """A token with that header whose signature is that of HS256 all the same."""

    def part(data: bytes) -> bytes:
        return base64.urlsafe_b64encode(data).rstrip(b"=")

    _, payload, _ = assertion().split(".")
    signed = part(json.dumps(header).encode()) + b"." + payload.encode()
    return (signed + b"." + part(hmac.digest(KEY, signed, "sha256"))).decode()


async def test_signed_assertion_jumps_the_queue(make_stage: StageMaker) -> None:
    """Ledger: ADM-07, SEC-09."""
    async with make_stage(queueing=SIGNED) as stage:
        await stage.publish(one_slot(stage))
        assert await order_of(stage, claim(assertion())) == JUMPS
        audiences = assertion(aud=["other", "model-router"])
        assert await order_of(stage, claim(audiences + " ", priority="Interactive ")) == JUMPS


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-Inference-Priority": "interactive"},
        {"X-Inference-Identity": assertion()},
        claim(assertion(), priority="background"),
        claim(assertion(), priority="interactive, interactive"),
        claim("Bearer " + assertion()),
        claim(assertion(key=b"another-key-that-nobody-gave-out")),
        claim(assertion(aud="model-gateway")),
        claim(assertion(aud=None)),
        claim(assertion(exp=int(NOW.timestamp()) - 31)),
        claim(assertion(exp=None)),
        claim(assertion(exp="soon")),
        claim(assertion(exp=True)),
        claim(assertion(exp=float("inf"))),
        claim(assertion(nbf=int(NOW.timestamp()) + 31)),
        claim(assertion(email=None)),
        claim(assertion(email="")),
        claim(assertion(email=["ann@example.com"])),
        claim(assertion(algorithm="HS512", key=KEY * 2)),
        claim(jwt.encode({"aud": "model-router", "email": ANN, "exp": 2**40}, "", "none")),
        claim(unsigned({"typ": "JWT", "alg": "none"})),
        claim(unsigned({"typ": "JWT", "alg": "RS256"})),
        claim(unsigned({"typ": "JWT", "alg": "HS256", "crit": ["x"]})),
        claim(assertion()[:-1]),
        claim(assertion().replace(".", "", 1)),
        claim("x" * 5000),
        claim(assertion(note="x" * 4000)),
    ],
    ids=[
        "no-headers",
        "no-identity",
        "no-priority",
        "background",
        "twice",
        "bearer",
        "forged",
        "other-audience",
        "no-audience",
        "expired",
        "no-expiry",
        "expiry-text",
        "expiry-truth",
        "never-expires",
        "not-yet",
        "no-email",
        "empty-email",
        "several-emails",
        "other-algorithm",
        "no-algorithm",
        "algorithm-none",
        "algorithm-asymmetric",
        "unknown-extension",
        "cut",
        "two-parts",
        "no-token",
        "too-long",
    ],
)
async def test_anything_else_is_background_and_served(make_stage: StageMaker, headers: dict[str, str]) -> None:
    """Ledger: ADM-07, ADM-08, ADM-13, SEC-09."""
    async with make_stage(queueing=SIGNED) as stage:
        await stage.publish(one_slot(stage))
        assert await order_of(stage, headers) == STAYS


async def test_assertion_holds_until_it_expires_give_or_take_half_a_minute(make_stage: StageMaker) -> None:
    """Ledger: ADM-07."""
    async with make_stage(queueing=SIGNED) as stage:
        await stage.publish(one_slot(stage))
        token = assertion()
        stage.clock.step(300 + 29.5)
        assert await order_of(stage, claim(token)) == JUMPS
        stage.clock.step(0.5)
        assert await order_of(stage, claim(token)) == STAYS


async def test_claims_of_priority_go_no_further(make_stage: StageMaker, caplog: pytest.LogCaptureFixture) -> None:
    """Ledger: ADM-08, ADM-12: no header, log line or metric holds the address, nor the token that says it."""
    caplog.set_level(logging.DEBUG)
    token = assertion()
    others = {"X-Runink-Priority": "interactive", "X-InferCrane-Priority": "9", "Priority": "u=0", "X-Kept": "1"}
    async with make_stage(queueing=SIGNED) as stage:
        await stage.publish(one_slot(stage))
        assert (await stage.chat(headers={**claim(token), **others})).status == 200
        [seen] = [one for one in stage.replica.received if one.header("x-kept")]
        names = {name.lower() for name, _ in seen.headers}
        assert not [name for name in names if "priority" in name or name.startswith("x-inference")]
        async with stage.http.get(f"http://127.0.0.1:{stage.gateway.admin_port}/metrics") as answer:
            metrics = await answer.text()
        logged = "\n".join(f"{record.getMessage()} {record.__dict__}" for record in caplog.records)
        for text in (str(seen.headers), logged, metrics):
            assert "ann@example.com" not in text.lower()
            assert token not in text


async def test_unsigned_claim_by_another_name_has_no_effect(make_stage: StageMaker) -> None:
    """Ledger: ADM-08."""
    async with make_stage(queueing=SIGNED) as stage:
        await stage.publish(one_slot(stage))
        assert await order_of(stage, {"X-Runink-Priority": "interactive"}) == STAYS


async def test_person_has_two_interactive_places_and_the_rest_is_background(make_stage: StageMaker) -> None:
    """Ledger: ADM-09, GW-18."""
    async with make_stage(queueing=SIGNED) as stage:
        await stage.publish(one_slot(stage))
        crowd = Crowd(stage)
        await crowd.send("runs")
        await crowd.send("background")
        ann, bob = claim(assertion()), claim(assertion("bob@example.com"))
        spoofed = claim(assertion("ANN@example.COM"), principal="somebody@else.com")
        await crowd.send("ann-1", headers=ann)
        await crowd.send("ann-2", headers=spoofed)
        await crowd.send("ann-3", headers=spoofed)
        await crowd.send("bob-1", headers=bob)
        assert crowd.queued("engine") == (1, 3, 2)
        crowd.held.release("runs")
        await crowd.answer("runs")
        await crowd.held.came("runs", "ann-1")
        await crowd.send("ann-4", headers=ann)
        assert crowd.queued("engine") == (1, 2, 3), "one that is served counts too"
        await crowd.finish()
        assert crowd.held.names == ["runs", "ann-1", "ann-2", "bob-1", "background", "ann-3", "ann-4"]
        assert {(await crowd.answer(name)).status for name in crowd.sent} == {200}


async def test_cap_is_a_setting(make_stage: StageMaker) -> None:
    """Ledger: ADM-09."""
    async with make_stage(queueing=replace(SIGNED, interactive_per_principal=1)) as stage:
        await stage.publish(one_slot(stage))
        crowd = Crowd(stage)
        for name in ("runs", "second", "third"):
            await crowd.send(name, headers=claim(assertion()))
        assert crowd.queued("engine") == (1, 0, 2)
        await crowd.finish()


async def test_background_that_has_waited_goes_before_newer_interactive(make_stage: StageMaker) -> None:
    """Ledger: ADM-10."""
    async with make_stage(queueing=replace(SIGNED, background_wait_seconds=0.0)) as stage:
        await stage.publish(one_slot(stage))
        assert await order_of(stage, claim(assertion())) == STAYS


async def test_without_a_key_nobody_is_interactive_and_everything_is_served(make_stage: StageMaker) -> None:
    """Ledger: ADM-11."""
    for key in (None, b""):
        async with make_stage(queueing=Queueing(identity_key=key)) as stage:
            await stage.publish(one_slot(stage))
            assert await order_of(stage, claim(assertion())) == STAYS


async def test_short_key_signs_and_is_warned_of(make_stage: StageMaker, caplog: pytest.LogCaptureFixture) -> None:
    """Ledger: ADM-07."""
    claims = {"aud": "model-router", "email": ANN, "exp": int(NOW.timestamp()) + 300}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jwt.InsecureKeyLengthWarning)
        token = jwt.encode(claims, b"short", "HS256")
    async with make_stage(queueing=Queueing(identity_key=b"short")) as stage:
        await stage.publish(one_slot(stage))
        assert await order_of(stage, claim(token)) == JUMPS
    assert [record.getMessage() for record in caplog.records if "identity key" in record.getMessage()] == [
        "taking the identity key: it is short enough to be guessed, bytes wanted: 32"
    ]


async def test_headers_have_the_names_that_are_set_and_the_usual_ones_still_go_no_further(
    make_stage: StageMaker,
) -> None:
    """Ledger: ADM-07, ADM-08."""
    named = replace(SIGNED, priority_header="X-Rank", principal_header="X-Who", identity_header="X-Proof")
    async with make_stage(queueing=named) as stage:
        await stage.publish(one_slot(stage))
        assert await order_of(stage, {"x-rank": "interactive", "X-PROOF": assertion(), "X-Who": "1"}) == JUMPS
        assert await order_of(stage, claim(assertion())) == STAYS
        seen = {name.lower() for request in stage.replica.received for name, _ in request.headers}
        assert not seen & {"x-rank", "x-who", "x-proof", *(name.lower() for name in claim(""))}


async def test_tenant_s_own_key_is_a_secret_that_the_snapshot_names(make_stage: StageMaker, tmp_path: Path) -> None:
    """Ledger: ADM-07: what one tenant signs proves nothing for another, and only its own key does for it."""
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    own = b"key-of-acme-alone-with-32-bytes."
    (secrets / "acme-priority").write_bytes(own + b"\n")
    async with make_stage(queueing=SIGNED, secrets=secrets) as stage:
        terms = (TenantTerms(tenant="acme", priority_key="acme-priority"),)
        await stage.publish(one_slot(stage, tenants=terms))
        assert await order_of(stage, claim(assertion(key=own))) == JUMPS
        assert await order_of(stage, claim(assertion())) == STAYS
        crowd = Crowd(stage)
        await crowd.send("runs")
        await crowd.send("theirs", secret=OTHER_SECRET, headers=claim(assertion(key=own)))
        await crowd.send("ours", secret=OTHER_SECRET, headers=claim(assertion()))
        assert crowd.queued("engine") == (1, 1, 1)
        await crowd.finish()
        await stage.publish(one_slot(stage, tenants=(TenantTerms(tenant="acme", priority_key="gone"),), version=4))
        assert await order_of(stage, claim(assertion(key=own))) == STAYS
