"""Assertions of any content: either they say a person and a time, or they prove nothing. They never break anything."""

from __future__ import annotations

import json
import math

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.gateway.queueing.assertion import SKEW_SECONDS, read_assertion

KEY = b"identity-key-of-thirty-two-bytes"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
CLAIMS = st.dictionaries(st.sampled_from(["aud", "email", "exp", "nbf", "iat", "iss", "sub", "jti", "x"]), JSON)
GOOD = {"aud": "model-router", "email": "Ann@Example.com", "exp": 1_000}


def signed(payload: bytes, headers: dict[str, object] | None = None) -> bytes:
    """A token with that payload, whatever it is."""
    return jwt.api_jws.encode(payload, KEY, algorithm="HS256", headers=headers).encode()


@given(CLAIMS)
def test_signed_claims_of_any_kind_are_read_or_prove_nothing(claims: dict[str, object]) -> None:
    found = read_assertion(signed(json.dumps({**GOOD, **claims}).encode()), KEY)
    if found is not None:
        assert found.email == found.email.casefold() != ""
        assert math.isfinite(found.expires)
        assert math.isfinite(found.not_before)


@given(st.binary(max_size=200))
def test_bytes_of_any_kind_prove_nothing(token: bytes) -> None:
    assert read_assertion(token, KEY) is None


@given(st.binary(max_size=60))
def test_signed_bytes_of_any_kind_prove_nothing(payload: bytes) -> None:
    assert read_assertion(signed(payload), KEY) is None


@given(st.dictionaries(st.sampled_from(["typ", "kid", "crit", "b64", "x5c", "jwk", "cty"]), JSON, max_size=3))
def test_headers_of_any_kind_break_nothing(headers: dict[str, object]) -> None:
    """Ledger: SEC-09: the key never comes from the token."""
    unsigned = jwt.utils.base64url_encode(json.dumps({"alg": "HS256", **headers}).encode())
    payload = jwt.utils.base64url_encode(json.dumps(GOOD).encode())
    whole = unsigned + b"." + payload
    signature = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256).sign(whole, KEY)
    found = read_assertion(whole + b"." + jwt.utils.base64url_encode(signature), KEY)
    assert found is None or found.email == "ann@example.com"


def test_deeply_nested_payload_proves_nothing() -> None:
    assert read_assertion(signed(b'{"aud":' + b"[" * 1000 + b"]" * 1000 + b"}"), KEY) is None


@pytest.mark.parametrize("key", [b"", b"-----BEGIN PUBLIC KEY-----", b'{"kty":"oct","k":"AAAA"}'])
def test_key_that_is_none_proves_nothing(key: bytes) -> None:
    """Ledger: SEC-09."""
    assert read_assertion(signed(json.dumps(GOOD).encode()), key) is None


def test_assertion_is_verified_again_for_another_key() -> None:
    token = signed(json.dumps(GOOD).encode())
    assert read_assertion(token, KEY) is not None
    assert read_assertion(token, KEY[::-1]) is None
    assert read_assertion(token, KEY) is not None


def test_skew_is_let_pass_on_both_sides() -> None:
    found = read_assertion(signed(json.dumps({**GOOD, "nbf": 500}).encode()), KEY)
    assert found is not None
    inside, outside = (500 - SKEW_SECONDS, 999 + SKEW_SECONDS), (499 - SKEW_SECONDS, 1000 + SKEW_SECONDS)
    assert [found.holds_at(now) for now in (*inside, *outside)] == [True, True, False, False]
