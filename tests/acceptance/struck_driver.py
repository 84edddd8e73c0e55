"""Stands in the place of Playwright's node, passes everything on, and at a message of its own strikes.

STRIKES is a list `kind:method,...`: the first driver that is started has the first strike, and so on. FOLDER gets a
file for each driver, with the pids of this process and of node.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

OUT, IN = 1, 0
KINDS = ("none", "stop", "kill", "silence", "close", "garbage", "unknown")


class Struck:
    """One driver."""

    def __init__(self, folder: Path, strikes: list[str]) -> None:
        self.node = subprocess.Popen([NODE, *sys.argv[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        number = len(list(folder.iterdir()))
        (folder / f"{number}").write_text(f"{os.getpid()} {self.node.pid}", "utf-8")
        self.kind, _, self.method = (strikes[number] if number < len(strikes) else "none").partition(":")
        assert self.kind in KINDS, self.kind
        self.mute = False

    def strike(self) -> None:
        self.mute = self.kind not in ("none", "stop", "kill")
        match self.kind:
            case "stop" | "kill":
                for pid in (self.node.pid, os.getpid()):
                    os.kill(pid, signal.SIGSTOP if self.kind == "stop" else signal.SIGKILL)
            case "close":
                os.close(OUT)
            case "garbage":
                write(OUT, framed(b"{oops"))
            case "unknown":
                write(OUT, framed(json.dumps({"id": "nobody", "result": {}}).encode()))

    def up(self) -> None:
        assert self.node.stdin is not None
        while (message := read(IN)) is not None:
            if json.loads(message).get("method") == self.method:
                self.strike()
            if not self.mute:
                write(self.node.stdin.fileno(), framed(message))
        self.node.stdin.close()

    def down(self) -> None:
        assert self.node.stdout is not None
        while (message := read(self.node.stdout.fileno())) is not None:
            if not self.mute:
                write(OUT, framed(message))


def read(file: int) -> bytes | None:
    """The next message; None at the end."""
    head = _exactly(file, 4)
    return _exactly(file, int.from_bytes(head, "little")) if head is not None else None


def _exactly(file: int, count: int) -> bytes | None:
    found = b""
    while len(found) < count:
        more = os.read(file, count - len(found))
        if not more:
            return None
        found += more
    return found


def write(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


def framed(message: bytes) -> bytes:
    return len(message).to_bytes(4, "little") + message


if __name__ == "__main__":
    NODE = os.environ["NODE"]
    driver = Struck(Path(os.environ["FOLDER"]), os.environ["STRIKES"].split(","))
    threading.Thread(target=driver.down, daemon=True).start()
    driver.up()
    driver.node.wait()
