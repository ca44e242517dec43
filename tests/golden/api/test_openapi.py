"""The public contract of the REST API as one reviewed text: routes, and the fields of every message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from provisioner.api.app import create_app
from provisioner.api.services import Services
from provisioner.domain.ids import RandomIds
from provisioner.store.interface import Store
from tests.store.examples import SteppedClock
from tests.unit.catalog.packs import small_catalog, small_site

GOLDEN = Path(__file__).parent / "openapi.txt"


class NoStore:
    """A store that nobody asks: the document depends on code alone."""

    def __getattr__(self, name: str) -> None:
        """One of its parts."""


def type_of(schema: Mapping[str, Any]) -> str:
    """A schema in a few characters."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(type_of(part) for part in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return "|".join(map(str, schema.get("enum", [schema.get("const")])))
    if schema.get("type") == "array":
        return f"[{type_of(schema.get('items', {}))}]"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"{{{type_of(schema['additionalProperties'])}}}"
    return str(schema.get("format") or schema.get("type", "any"))


def content_of(part: Mapping[str, Any]) -> str:
    return ", ".join(type_of(content.get("schema", {})) for content in part.get("content", {}).values())


def lines(document: Mapping[str, Any]) -> Iterator[str]:
    for path, methods in sorted(document["paths"].items()):
        for method, route in sorted(methods.items()):
            inputs = [f"{p['name']}{'' if p.get('required') else '?'}" for p in route.get("parameters", [])]
            body = content_of(route.get("requestBody", {}))
            answers = [f"{code} {content_of(answer)}" for code, answer in route["responses"].items()]
            asked = " ".join([*inputs, *([f"<- {body}"] if body else [])])
            yield f"{method.upper()} {path} ({asked}) -> {'; '.join(answers)}"
    for name, schema in sorted(document["components"]["schemas"].items()):
        if "properties" in schema:
            yield ""
            yield name
            required = schema.get("required", [])
            for field, part in schema["properties"].items():
                yield f"  {field}{'' if field in required else '?'}: {type_of(part)}"


def test_the_public_contract_is_as_reviewed(update_golden: bool) -> None:
    services = Services(
        store=cast(Store, NoStore()),
        catalog=small_catalog(),
        site=small_site(),
        clock=SteppedClock(),
        ids=RandomIds(),
        gateway_key_digest="",
    )
    text = "\n".join(lines(create_app(services).openapi())) + "\n"
    if update_golden:
        GOLDEN.write_text(text)
    assert GOLDEN.read_text() == text
