"""The keys file."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.domain.key import key_digest
from provisioner.domain.snapshot import Allowance, KeyDigest
from provisioner.gateway.standalone.keys import KeysError, parse_keys

DIGEST = key_digest("tnt-secret")


def test_line_is_a_key() -> None:
    content = f"""
{{"sha256": "{DIGEST.upper()}", "tenant": "acme", "team": "a", "name": "ci"}}

{{"sha256": "{"0" * 64}", "tenant": "acme", "team": null, "name": null}}\r
"""
    allowance = Allowance(requests_per_minute=60)
    assert parse_keys(content.encode(), allowance) == (
        KeyDigest(digest=DIGEST, tenant="acme", team="a", name="ci", allowance=allowance),
        KeyDigest(digest="0" * 64, tenant="acme", allowance=allowance),
    )


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("tnt-secret", "not a JSON object"),
        ('"tnt-secret"', "not a JSON object"),
        ("[]", "not a JSON object"),
        ('{"tenant": "acme"}', "`sha256` is missing"),
        (f'{{"sha256": "{DIGEST}"}}', "`tenant` is missing"),
        ('{"sha256": "tnt-secret", "tenant": "acme"}', "64 hexadecimal digits"),
        (f'{{"sha256": "{DIGEST}", "tenant": ""}}', "`tenant`"),
        (f'{{"sha256": "{DIGEST}", "tenant": "acme", "teams": "tnt-secret"}}', "a field besides"),
        (f'{{"sha256": "{DIGEST}", "tenant": "acme", "team": 3}}', "`team`"),
        (f'{{"sha256": "{DIGEST}", "tenant": "acme"', "not a JSON object"),
        (f'{{"sha256": "{"1" * 64}", "tenant": "acme"}}', "further up already"),
    ],
)
def test_what_is_wrong_is_told_by_line_and_never_by_content(line: str, told: str) -> None:
    first = f'{{"sha256": "{"1" * 64}", "tenant": "acme"}}'
    with pytest.raises(KeysError, match=told) as error:
        parse_keys(f"{first}\n\n{line}\n".encode(), None)
    assert "line 3" in str(error.value)
    assert "tnt-secret" not in str(error.value)


@given(st.binary(max_size=200) | st.recursive(st.none() | st.text(), st.lists).map(lambda v: json.dumps(v).encode()))
def test_any_content_is_keys_or_an_error(content: bytes) -> None:
    try:
        parse_keys(content, None)
    except KeysError as error:
        assert str(error).startswith("line ")
