"""A model server of thirty lines: loads until the file `--loaded` exists, then is healthy and streams."""

from __future__ import annotations

import argparse
import pathlib
import signal
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PARSER = argparse.ArgumentParser()
PARSER.add_argument("--host")
PARSER.add_argument("--port", type=int)
PARSER.add_argument("--loaded", type=pathlib.Path)
PARSER.add_argument("--model", default="stub")
PARSER.add_argument("--exit", type=int)
PARSER.add_argument("--stubborn", type=float)
ARGUMENTS, _ = PARSER.parse_known_args()


class Answer(BaseHTTPRequestHandler):
    """Health, and a stream of two chunks."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """`/health` tells whether it is loaded; every other path streams."""
        is_loaded = ARGUMENTS.loaded is None or ARGUMENTS.loaded.exists()
        self.send_response(200 if is_loaded else 503)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for chunk in (b"hello ", b"from " + ARGUMENTS.model.encode()):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")


def stop_late(*_: object) -> None:
    time.sleep(ARGUMENTS.stubborn)
    sys.exit()


if ARGUMENTS.stubborn is not None:
    signal.signal(signal.SIGTERM, stop_late)
if ARGUMENTS.exit is not None:
    time.sleep(0.1)
    sys.exit(ARGUMENTS.exit)
print("listening", flush=True)
ThreadingHTTPServer((ARGUMENTS.host, ARGUMENTS.port), Answer).serve_forever()
