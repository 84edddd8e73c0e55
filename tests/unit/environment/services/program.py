"""A small service for the tests: `program.py PORT [NAME] [MODE] [SECONDS]`.

READY_AFTER in the environment: it answers 503 for so many seconds. SICK: while there is this file, it answers 500.
Mode `busy`: it serves one request after the other, and `/work` takes it as long as there is the file BUSY.
Mode `outrun`: it ends as soon as somebody else listens on its port.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer


class Answer(BaseHTTPRequestHandler):
    name = "site"
    status = 200
    ready = 0.0

    def do_GET(self) -> None:
        while self.path == "/work" and os.path.exists(os.environ["BUSY"]):
            time.sleep(0.02)
        sick = os.path.exists(os.environ.get("SICK", ""))
        status = 500 if sick else 503 if time.monotonic() < self.ready else self.status
        seen = {"host": self.headers["Host"], "user_agent": self.headers["User-Agent"]}
        body = json.dumps({"service": self.name, "version": 2, "pid": os.getpid(), "path": self.path, **seen}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Quiet."""


class Server(ThreadingHTTPServer):
    allow_reuse_address = True


class OneByOne(HTTPServer):
    allow_reuse_address = True


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def main(port: str, name: str = "site", mode: str = "ok", seconds: str = "0") -> None:
    for number in range(30):
        print(f"line {number} of {name} in {os.environ.get('FLAVOUR', 'plain')}", flush=True)
    time.sleep(float(seconds))
    while mode == "outrun" and not listens(int(port)):
        time.sleep(0.02)
    if mode in ("crash", "outrun"):
        sys.exit(3)
    if mode == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if mode in ("stubborn", "family"):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        print(f"child {child.pid}", flush=True)
    if mode == "unready":
        time.sleep(600)
    Answer.name, Answer.status = name, 503 if mode == "sick" else 200
    Answer.ready = time.monotonic() + float(os.environ.get("READY_AFTER", "0"))
    server = OneByOne if mode == "busy" else Server
    server(("127.0.0.1", int(port)), Answer).serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
