"""Runs one command against the REST API.

The only place where commands meet the network; a command says what is to be asked and prints what is answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from provisioner.domain.errors import NotFoundError, RejectedError
from provisioner.settings import Settings, read_api_key, read_operator_key, read_settings

if TYPE_CHECKING:
    from provisioner.client.call import Call, Flow
    from provisioner.client.client import Client

T = TypeVar("T")

_OF_THE_KEY = frozenset(("Unauthorized", "Forbidden", "CustomerCreateOff"))
"""Reasons of a refusal that another key may not meet."""


def send(call: Call[T]) -> T:
    """Carry out one call to the API that the environment names, with the key that it names."""
    return ask(lambda client: client.send(call))


def collect(flow: Flow[T]) -> list[T]:
    """Everything that a flow of calls to that API tells."""
    return ask(lambda client: client.collect(flow))


def each(flow: Flow[T]) -> Iterator[T]:
    """What a flow of calls to that API tells, as it comes."""
    settings = read_settings()
    with _telling_whose_key(), _client(settings, _key(settings)) as client:
        yield from client.each(flow)


def ask(request: Callable[[Client], T]) -> T:
    """Run `request` with a client of the API that the environment names: with the key of TENANTRY_API_KEY, or the
    operator's where there is none."""
    settings = read_settings()
    with _telling_whose_key(), _client(settings, _key(settings)) as client:
        return request(client)


def call_api(settings: Settings, request: Callable[[Client], T]) -> T:
    """Run `request` with a client of the API that the settings name, as the operator, whatever the environment says."""
    with _client(settings, read_operator_key(settings)) as client:
        return request(client)


@contextmanager
def _telling_whose_key() -> Iterator[None]:
    """Say of a refusal that it may be the key's: to a customer's, what is the provider's does not exist."""
    try:
        yield
    except (NotFoundError, RejectedError) as error:
        if read_api_key() and (isinstance(error, NotFoundError) or error.reason in _OF_THE_KEY):
            hint = "TENANTRY_API_KEY may be a customer's key; unset TENANTRY_API_KEY to ask as the operator"
            error.hint = f"{hint}; {error.hint}" if error.hint else hint
        raise


def _client(settings: Settings, key: str) -> Client:
    from provisioner.client.client import Client

    return Client(settings.url, key)


def _key(settings: Settings) -> str:
    return read_api_key() or read_operator_key(settings)
