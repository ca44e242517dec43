"""The TLS listeners on loopback that stand for tenants' Gateways: one per port, serving every tenant cluster by SNI.

A caller must show a client certificate of the CA that the Gateway it names trusts, and is then forwarded by Host and
path to a ready replica, streaming both ways; when it leaves, the request to the replica is cancelled. The Gateway
controller publishes the table of a cluster whole; nothing here reads the Kubernetes API.
"""

from __future__ import annotations

import asyncio
import itertools
import ssl
import tempfile
from collections.abc import Sequence
from urllib.parse import unquote
from weakref import WeakKeyDictionary

import aiohttp
from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from provisioner.embedded.controllers.gateway_api.routing import TlsMaterial, Virtual
from provisioner.embedded.controllers.gateway_api.world import covers

_HOST = "127.0.0.1"
_HOP_BY_HOP = frozenset(
    ("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding",
     "upgrade", "proxy-connection", "expect")
)  # fmt: skip
_CONNECT_SECONDS = 5.0
_HANDSHAKE_SECONDS = 10.0
_SHUTDOWN_SECONDS = 1.0


class Listeners:
    """All listeners of a plane. `publish` and `withdraw` are what the Gateway controller calls."""

    def __init__(self) -> None:
        self._clusters: dict[str, tuple[Virtual, ...]] = {}
        self._ports: dict[int, _Port] = {}
        self._opening = asyncio.Lock()

    async def publish(self, cluster: str, virtuals: Sequence[Virtual]) -> dict[Virtual, str]:
        """Serve these, and only these, for a cluster from now on. Returns what keeps some of them from being served."""
        self._clusters[cluster] = tuple(virtuals)
        async with self._opening:
            problems = await self._serve()
        return {virtual: problems[virtual] for virtual in virtuals if virtual in problems}

    async def withdraw(self, cluster: str) -> None:
        """Serve nothing more for a cluster."""
        if self._clusters.pop(cluster, None):
            async with self._opening:
                await self._serve()

    async def close(self) -> None:
        """Close every port and connection."""
        self._clusters.clear()
        async with self._opening:
            await self._serve()

    async def _serve(self) -> dict[Virtual, str]:
        wanted: dict[int, list[Virtual]] = {}
        for virtual in itertools.chain.from_iterable(self._clusters.values()):
            wanted.setdefault(virtual.port, []).append(virtual)
        for number in self._ports.keys() - wanted.keys():
            await self._ports.pop(number).close()
        problems: dict[Virtual, str] = {}
        for number, virtuals in wanted.items():
            try:
                if number not in self._ports:
                    self._ports[number] = await _Port.open(number)
            except OSError as error:
                text = f"opening a port of this machine: {number}: {error.strerror or error}"
                problems |= dict.fromkeys(virtuals, text)
            else:
                problems |= self._ports[number].serve(virtuals)
        return problems


class _Port:
    """One open port: picks the virtual server by SNI, checks the caller, forwards."""

    def __init__(self) -> None:
        self._virtuals: tuple[Virtual, ...] = ()
        self._contexts: dict[TlsMaterial, ssl.SSLContext] = {}
        self._names: WeakKeyDictionary[object, str] = WeakKeyDictionary()
        self._turn = itertools.count()
        self._web = web.Server(self._answer, handler_cancellation=True, access_log=None)
        self._session = _open_session()
        self._server: asyncio.Server | None = None

    @classmethod
    async def open(cls, number: int) -> _Port:
        """Listen on a port of loopback. OSError when it is taken or not ours to take."""
        port = cls()
        context = _new_context()
        context.sni_callback = port._choose
        try:
            port._server = await asyncio.get_running_loop().create_server(
                port._web, _HOST, number, ssl=context, ssl_handshake_timeout=_HANDSHAKE_SECONDS
            )
        except OSError:
            await port.close()
            raise
        return port

    def serve(self, virtuals: Sequence[Virtual]) -> dict[Virtual, str]:
        """Swap the table. Returns those whose certificate or CA cannot be used; they are not served."""
        contexts: dict[TlsMaterial, ssl.SSLContext] = {}
        problems: dict[Virtual, str] = {}
        for virtual in virtuals:
            try:
                contexts[virtual.tls] = self._contexts.get(virtual.tls) or _context(virtual.tls)
            except ssl.SSLError as error:
                problems[virtual] = f"loading the certificate and the clients' CA: {error.reason or 'not PEM'}"
        self._contexts = contexts
        self._virtuals = tuple(virtual for virtual in virtuals if virtual not in problems)
        return problems

    async def close(self) -> None:
        """Stop listening and cut what is left."""
        if self._server is not None:
            self._server.close()
            await self._web.shutdown(_SHUTDOWN_SECONDS)
        await self._session.close()

    def _find(self, name: str) -> Virtual | None:
        """The virtual server for an SNI name: one that routes just this name goes before one that could (several
        clusters of a tenant share a wildcard)."""
        fitting = [virtual for virtual in self._virtuals if covers(virtual.hostname, name)]
        exact = [virtual for virtual in fitting if virtual.routes_hostname(name)]
        return next(iter(exact or fitting), None)

    def _choose(self, connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, _: ssl.SSLContext) -> int | None:
        virtual = self._find(name.lower()) if name else None
        if name is None or virtual is None:
            return ssl.AlertDescription.ALERT_DESCRIPTION_UNRECOGNIZED_NAME
        connection.context = self._contexts[virtual.tls]
        self._names[connection] = name.lower()
        return None

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        transport = request.transport
        connection = transport.get_extra_info("ssl_object") if transport else None
        name = self._names.get(connection) if connection else None
        hostname = request.host.partition(":")[0].lower()
        if name is None or hostname != name:
            return _refuse(421, "the Host header is not the name that TLS asked for")
        if not _is_plain(request.path):
            return _refuse(400, "the path has dot segments or backslashes")
        virtual = self._find(name)
        rule = virtual.find_rule(name, request.path) if virtual else None
        if rule is None:
            return _refuse(404, "no route")
        if not rule.is_resolved:
            return _refuse(500, "the route's backend does not exist")
        if not rule.addresses:
            return _refuse(503, "no ready replica")
        address = rule.addresses[next(self._turn) % len(rule.addresses)]
        return await self._forward(request, address, request_seconds=rule.request_seconds)

    async def _forward(
        self, request: web.BaseRequest, address: str, *, request_seconds: float | None
    ) -> web.StreamResponse:
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        response: web.StreamResponse | None = None
        try:
            async with self._session.request(
                request.method,
                URL(f"http://{address}{request.raw_path}", encoded=True),
                headers=_forwarded(request.headers),
                data=request.content if request.body_exists else None,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=request_seconds, sock_connect=_CONNECT_SECONDS),
            ) as upstream:
                response = web.StreamResponse(status=upstream.status, reason=upstream.reason)
                response.headers.extend(_forwarded(upstream.headers))
                await response.prepare(request)
                async for chunk in upstream.content.iter_any():
                    await response.write(chunk)
                await response.write_eof()
                return response
        except TimeoutError:
            refusal = _refuse(504, "the replica did not answer in time")
        except (aiohttp.ClientError, ConnectionError) as error:
            refusal = _refuse(502, f"the replica broke: {type(error).__name__}")
        if response is None or not response.prepared:
            return refusal
        if request.transport is not None:
            request.transport.abort()  # the caller must see that the answer is not whole
        return response


def _open_session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
    )


def _new_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    context.options |= ssl.OP_NO_TICKET  # a session resumed under another Gateway's name would skip its client check
    context.num_tickets = 0
    context.set_alpn_protocols(["http/1.1"])
    return context


def _context(tls: TlsMaterial) -> ssl.SSLContext:
    context = _new_context()
    context.load_verify_locations(cadata=tls.client_ca)
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:  # 0600; ssl loads key pairs from files only
        file.write(f"{tls.certificate}\n{tls.key}")
        file.flush()
        context.load_cert_chain(file.name)
    return context


def _forwarded(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    named = {name.strip().lower() for value in headers.getall("Connection", ()) for name in value.split(",")}
    return CIMultiDict((key, value) for key, value in headers.items() if key.lower() not in _HOP_BY_HOP | named)


def _is_plain(path: str) -> bool:
    return "\\" not in path and not {".", ".."} & set(unquote(path).split("/"))


def _refuse(status: int, message: str) -> web.Response:
    return web.json_response({"error": {"message": message, "type": "gateway", "code": status}}, status=status)
