"""What one probe asks of one replica: is it healthy, does it list the model, does it answer one small real request?

Each answer is a CamelCase reason, or nothing when all is well. A server without a health page is judged by its list of
models; an engine of a lane may show neither, for nobody knows what it is, and is then well if it answers at all. The
list of an endpoint's replica must name the route's upstream model where that is another word than the alias: only then
is it known to be the engine's own. Engines of lanes answer to names that they do not list. Called by `probes`, which
knows when.
"""

from __future__ import annotations

import json
import math

from provisioner.domain.small_request import SmallRequest, is_about_limits, is_answer, served_models, small_request
from provisioner.gateway.replica.dialer import Dialer
from provisioner.gateway.replica.replica_client import ReplicaClient
from provisioner.gateway.replica.turns import Replica
from provisioner.gateway.secrets import SecretReader

_LOOKS_PER_LIST = 12
_NOT_IMPLEMENTED = 501
"""What servers say to a method that they know for no page, Python's `http.server` for one: no sign of an illness."""
_BOUNDARY = "tenantry-small-request"


class Probe:
    """The questions to one replica, and the connection for them."""

    def __init__(self, replica: Replica, dialer: Dialer, secret: SecretReader) -> None:
        self.replica = replica
        self._client = ReplicaClient(replica.backend, dialer, secret)
        self.examined_at = -math.inf
        """When it last was suspect and had passed; infinite while it is being examined."""
        self._looks = 0
        self._listed: tuple[str, ...] = ()

    async def look(self) -> str:
        """Asks for its health and, now and then or while something is wrong, for its models. Raises `OSError`."""
        client, health = self._follow(), self.replica.health
        answer = await client.ask("/health")
        if _is_broken(answer.status):
            return "Unhealthy"
        has_no_page = answer.status >= 300
        is_watched = health.is_out or health.failed_probes > 0
        self._looks += 1
        if not has_no_page and not is_watched and self._looks % _LOOKS_PER_LIST != 1:
            return ""
        listed = await client.ask("/v1/models")
        route, names = self.replica.route, served_models(listed.json())
        if _is_broken(listed.status) or (has_no_page and listed.status >= 300 and route.tenant):
            return "Unhealthy"
        self._listed = names
        is_ours = bool(route.tenant) and route.upstream_model != route.alias
        return "WrongModel" if is_ours and names and route.upstream_model not in names else ""

    async def prove(self) -> str:
        """Sends one small real request of the model's kind, for a model that the replica lists. Raises `OSError`."""
        client, route = self._follow(), self.replica.route
        is_unknown = bool(self._listed) and route.upstream_model not in self._listed
        wanted = small_request(route.kind, self._listed[0] if is_unknown else route.upstream_model)
        content_type, body = _encoded(wanted)
        answer = await client.ask(f"/v1{wanted.path}", body=body, content_type=content_type)
        is_well = answer.status == 200 and is_answer(route.kind, answer.json())
        return "" if is_well or is_about_limits(answer.status, answer.body) else "NoAnswer"

    def close(self) -> None:
        """Ends its connection."""
        self._client.close()

    def _follow(self) -> ReplicaClient:
        """The client, for the replica as the present snapshot has it."""
        if self._client.backend is not self.replica.backend:
            if self._client.backend != self.replica.backend:
                self._client.close()
            self._client.backend = self.replica.backend
        return self._client


def _is_broken(status: int) -> bool:
    return status >= 500 and status != _NOT_IMPLEMENTED


def _encoded(wanted: SmallRequest) -> tuple[str, bytes]:
    """The content type and the body."""
    if wanted.audio is None:
        return "application/json", json.dumps(wanted.json).encode()
    parts = [
        f'--{_BOUNDARY}\r\ncontent-disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in (wanted.form or {}).items()
    ]
    file = f'--{_BOUNDARY}\r\ncontent-disposition: form-data; name="file"; filename="second.wav"\r\n'
    parts += (file.encode(), b"content-type: audio/wav\r\n\r\n", wanted.audio, f"\r\n--{_BOUNDARY}--\r\n".encode())
    return f"multipart/form-data; boundary={_BOUNDARY}", b"".join(parts)
