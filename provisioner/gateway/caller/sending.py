"""Sends a caller's request to the replica that takes it: the head that the replica gets, and the body, in which the
model has the engine's name. Used by `exchange`, once for a request.
"""

from __future__ import annotations

from collections.abc import Sequence

from provisioner.gateway.body.form_body import FormBody
from provisioner.gateway.caller.request import Request
from provisioner.gateway.caller.upload import Upload
from provisioner.gateway.datapath import DataPath
from provisioner.gateway.replica.upstream import Receiver, UpstreamConnection


def send(
    path: DataPath, request: Request, model: str, upstream: UpstreamConnection, receiver: Receiver
) -> tuple[Upload | None, bool]:
    """Sends `request` as one for `model`; `receiver` gets the answer.

    Gives what moves the body on, if that was not handed on whole, and whether the engine was asked for the usage of a
    stream whose caller did not ask.
    """
    body = request.body
    if isinstance(body, FormBody):
        length = body.rename(model)
        framing = b"transfer-encoding: chunked\r\n\r\n" if length is None else _length_line(length)
        upstream.begin_sending(receiver, _head(path, request, upstream, framing, asks_for_usage=False))
        return Upload(body, upstream, is_chunked=length is None), False
    wants_usage = path.asks_for_usage and request.knows_stream_options
    data, asks_for_usage = body.rewritten(model, wants_usage=wants_usage)
    body.release()  # an answer can take minutes
    upstream.send(
        receiver, _head(path, request, upstream, _length_line(len(data)), asks_for_usage=asks_for_usage), data
    )
    return None, asks_for_usage


def _head(
    path: DataPath, request: Request, upstream: UpstreamConnection, framing: bytes, *, asks_for_usage: bool
) -> list[bytes]:
    """The header block that the replica gets; `framing` is its last field and its end."""
    coding = request.withheld.get(b"accept-encoding")
    head = [b"POST ", request.target, b" HTTP/1.1\r\nhost: ", upstream.host, b"\r\n", request.lines]
    if asks_for_usage:
        coding = b"identity"  # what the caller did not ask for can only be taken out of plain text
    if coding is not None:
        head += (b"accept-encoding: ", coding, b"\r\n")
    if upstream.backend.credential is not None:
        head += _credential(path, upstream.backend.credential)
    head += (b"x-request-id: ", request.request_id, b"\r\n", *request.trace_lines, framing)
    return head


def _credential(path: DataPath, name: str) -> Sequence[bytes]:
    """The line with the secret of that name; none as long as there is none."""
    secret = path.secrets.read(name)
    return (b"authorization: Bearer ", secret, b"\r\n") if secret is not None else ()


def _length_line(length: int) -> bytes:
    return b"content-length: %d\r\n\r\n" % length
