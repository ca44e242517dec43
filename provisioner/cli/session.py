"""Runs one command against the REST API.

The only place where commands meet the network; a command says what is to be asked and prints what is answered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from provisioner.settings import Settings, read_operator_key, read_settings

if TYPE_CHECKING:
    from provisioner.client.call import Call, Flow
    from provisioner.client.client import Client

T = TypeVar("T")


def send(call: Call[T]) -> T:
    """Carry out one call to the API that the environment names."""
    return call_api(read_settings(), lambda client: client.send(call))


def collect(flow: Flow[T]) -> list[T]:
    """Everything that a flow of calls to that API tells."""
    return call_api(read_settings(), lambda client: client.collect(flow))


def call_api(settings: Settings, request: Callable[[Client], T]) -> T:
    """Run `request` with a client of the API that the settings name."""
    from provisioner.client.client import Client

    with Client(settings.url, read_operator_key(settings)) as client:
        return request(client)
