"""A tool server over standard input and output, written without the SDK: a mailbox that counts what it does.

`python mailbox_server.py FOLDER`: each call of a tool adds a line to `FOLDER/effects.txt`, and `state.json` has the
number of mails sent to each address, so that a channel can tell whether one was sent. Servers may share a folder.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

TEXT = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
TOOLS = [
    {"name": "get_code", "description": "The code.", "inputSchema": TEXT, "annotations": {"readOnlyHint": True}},
    {"name": "send_mail", "description": "Sends a mail.", "inputSchema": TEXT},
    {"name": "state", "description": "All.", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
]


def answer(method: str, parameters: dict[str, Any], folder: Path) -> dict[str, Any] | None:
    """The result of a request; None for one that this server does not know."""
    if method == "initialize":
        info = {"name": "mailbox", "version": "1"}
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        if parameters["name"] == "state":
            return {"content": [{"type": "text", "text": (folder / "state.json").read_text()}]}
        return called(parameters["name"], parameters["arguments"]["to"], folder)
    return {} if method == "ping" else None


def called(tool: str, to: str, folder: Path) -> dict[str, Any]:
    """Do what the tool does, and count it."""
    print(f"{tool} for {to}, as {os.environ.get('MAILBOX_TOKEN', 'nobody')}", file=sys.stderr, flush=True)
    with (folder / "effects.txt").open("a") as file:
        file.write(f"{tool} {to}\n")
    mails = [line.split()[1] for line in (folder / "effects.txt").read_text().splitlines() if line.startswith("send")]
    new = folder / f"state.{os.getpid()}"
    new.write_text(json.dumps({"sent": Counter(mails)}))
    new.replace(folder / "state.json")
    found = {"code": "123456", "to": to}
    return {"content": [{"type": "text", "text": json.dumps(found)}], "structuredContent": found}


def main(folder: Path) -> None:
    """Answer to the end of standard input."""
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        result = answer(request["method"], request.get("params", {}), folder)
        unknown = {"error": {"code": -32601, "message": f"unknown method {request['method']}"}}
        said = unknown if result is None else {"result": result}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **said}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
