"""A small model server that takes llama-server's flags: healthy, names its model, answers chat with its context."""

from __future__ import annotations

import argparse
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PARSER = argparse.ArgumentParser()
PARSER.add_argument("--host")
PARSER.add_argument("--port", type=int)
PARSER.add_argument("--alias")
PARSER.add_argument("--ctx-size", default="ok")
ARGUMENTS, _ = PARSER.parse_known_args()
NEVER_LOADED = "6666"
"""The context with which it is never healthy."""


class Answer(BaseHTTPRequestHandler):
    """What a replica is asked."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Health and models."""
        is_loaded = ARGUMENTS.ctx_size != NEVER_LOADED
        self._answer({"data": [{"id": ARGUMENTS.alias}]}, status=200 if is_loaded else 503)

    def do_POST(self) -> None:
        """One completion."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer({"choices": [{"message": {"content": ARGUMENTS.ctx_size}}]})

    def _answer(self, body: object, status: int = 200) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Stay quiet."""


ThreadingHTTPServer((ARGUMENTS.host, ARGUMENTS.port), Answer).serve_forever()
