"""A small model server that takes llama-server's flags: healthy, names its model, answers chat with a word."""

from __future__ import annotations

import argparse
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PARSER = argparse.ArgumentParser()
PARSER.add_argument("--host")
PARSER.add_argument("--port", type=int)
PARSER.add_argument("--alias")
ARGUMENTS, _ = PARSER.parse_known_args()


class Answer(BaseHTTPRequestHandler):
    """What a replica is asked."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Health and models."""
        self._answer({"data": [{"id": ARGUMENTS.alias}]})

    def do_POST(self) -> None:
        """One completion."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer({"choices": [{"message": {"content": "ok"}}]})

    def _answer(self, body: object) -> None:
        text = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Stay quiet."""


ThreadingHTTPServer((ARGUMENTS.host, ARGUMENTS.port), Answer).serve_forever()
