"""An agent that knows nothing of the harness: Python with only the standard library, and the address of its bridge.

It does the steps of a JSON file, which is its argument. `hang`, `exit`, `hook`, `ask` are no steps of the harness.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import struct
import subprocess
import sys
import time
import urllib.request
import uuid
from datetime import UTC, datetime
from urllib.parse import urlsplit


class Socket:
    """A WebSocket of RFC 6455, as far as it is needed here."""

    def __init__(self, url: str) -> None:
        place = urlsplit(url)
        self.stream = socket.create_connection((place.hostname, place.port), timeout=60)
        key = base64.b64encode(os.urandom(16)).decode()
        request = f"GET {place.path} HTTP/1.1\r\nHost: {place.netloc}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        self.stream.sendall(f"{request}Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
        self.file = self.stream.makefile("rb")
        status = self.file.readline()
        assert b" 101 " in status, status
        while self.file.readline().strip():
            pass

    def send(self, kind: str, **payload: object) -> None:
        moment = datetime.now(UTC).isoformat()
        message = {"type": kind, "id": str(uuid.uuid4()), "timestamp": moment, "payload": payload}
        self.frame(1, json.dumps(message).encode())

    def frame(self, code: int, data: bytes) -> None:
        length = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + struct.pack("!H", len(data))
        self.stream.sendall(bytes([0x80 | code]) + length + bytes(4) + data)

    def receive(self, *types: str) -> dict:
        """The payload of the next message of these types."""
        while True:
            code, length = self.file.read(2)
            if length == 126:
                (length,) = struct.unpack("!H", self.file.read(2))
            elif length == 127:
                (length,) = struct.unpack("!Q", self.file.read(8))
            data = self.file.read(length)
            if code & 15 == 9:
                self.frame(10, data)
            elif code & 15 == 8:
                raise EOFError(data)
            elif (message := json.loads(data))["type"] in (*types, "error", "connection_error", "task_ended"):
                print(message["type"], json.dumps(message["payload"]), flush=True)
                return message["payload"]


class McpTools:
    """The tools of an MCP server, as far as they are needed here."""

    def __init__(self, file: str) -> None:
        with open(file) as config:
            (self.server,) = json.load(config)["mcpServers"].values()
        client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "s", "version": "1"}}
        self.ask("initialize", client)
        self.session = ""

    def ask(self, method: str, parameters: dict) -> dict:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}).encode()
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        request = urllib.request.Request(self.server["url"], body, {**headers, **self.server["headers"]})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["result"]

    def call(self, name: str, **arguments: object) -> dict:
        more = {"session": self.session} if self.session else {}
        result = self.ask("tools/call", {"name": name, "arguments": {**more, **arguments}})["structuredContent"]
        print(name, json.dumps(result), flush=True)
        self.session = result.get("session", self.session)
        return result


def drive_by_tools(file: str, steps: list) -> None:
    """Do the steps over MCP."""
    tools = McpTools(file)
    turn = tools.call("task_take")["turn"]
    for step in steps:
        turn = tools.call("act", turn=turn, step=step).get("turn", turn)
    tools.call("finish", turn=turn)


def ask_model(step: dict) -> None:
    """Ask a model over the harness's address, and print what came."""
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    headers = {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}", "Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(step["ask"]).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            print("model", answer.status, answer.read().decode()[:500], flush=True)
    except urllib.error.HTTPError as error:
        print("model", error.code, error.read().decode()[:500], flush=True)


def main() -> None:
    print(sorted(os.environ), os.getcwd(), sys.argv[2:], os.environ.get("GIVEN"), file=sys.stderr, flush=True)
    with open(sys.argv[1]) as file:
        steps = json.load(file)
    if sys.argv[2:] and sys.argv[2].endswith("mcp.json"):
        drive_by_tools(sys.argv[2], steps)
        return
    bridge = Socket(os.environ["TASKSPEC_BRIDGE"])
    bridge.send("auth", token=os.environ["TASKSPEC_TOKEN"])
    bridge.receive("connection_ack")
    bridge.send("session_create", agent="a stranger")
    bridge.receive("session_state")
    bridge.send("task_take")
    turn = bridge.receive("turn")
    for step in steps:
        if step.get("hang"):
            time.sleep(600)
        elif "daemon" in step:  # it leaves the process group, and on Linux nothing but its ancestry tells whose it is
            given = {} if sys.platform == "linux" else None
            command = [sys.executable, "-c", "import time; time.sleep(600)", step["daemon"]]
            subprocess.Popen(command, start_new_session=True, env=given)
        elif "exit" in step:
            sys.exit(step["exit"])
        elif "hook" in step:
            moment = datetime.now(UTC).isoformat()
            bridge.send("hook_event", event=step["hook"], timestamp=moment, session_id="mine", payload={})
            bridge.receive("hook_received")
        elif "ask" in step:
            ask_model(step)
        else:
            bridge.send("act", turn=turn["turn"], step=step)
            outcome = bridge.receive("outcome")
            turn = outcome.get("turn", turn)


main()
