"""``python -m harness.demo``: serve the demo sites until stopped."""

from __future__ import annotations

import argparse
import sqlite3
import sys
from collections.abc import Sequence

from harness.demo.server import HOSTS, PortTakenError, bind, ports_from, serve
from harness.demo.worlds import Worlds

LAST_BASE_PORT = 65_536 - len(HOSTS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        sockets = bind(options.ports or ports_from(options.port))  # the process with the ports has the file
        worlds = Worlds(options.state)
        serve(sockets, worlds)
    except PortTakenError as error:
        return _complain(str(error))
    except sqlite3.Error as error:
        return _complain(f"cannot use {options.state} as state file: {error}")
    worlds.close()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m harness.demo", description="Serve the demo sites on loopback.")
    parser.add_argument("--port", type=_base_port, default=8470, help="first port; 0 picks free ones (default 8470)")
    parser.add_argument("--ports", type=_ports, metavar="HOST=PORT,...", help="a port for each host, instead of --port")
    parser.add_argument("--state", default=":memory:", metavar="FILE", help="SQLite file (default: in memory)")
    return parser


def _base_port(text: str) -> int:
    port = int(text)
    if not 0 <= port <= LAST_BASE_PORT:
        raise argparse.ArgumentTypeError(f"{port} is not between 0 and {LAST_BASE_PORT}")
    return port


def _ports(text: str) -> dict[str, int]:
    given = dict(pair.partition("=")[::2] for pair in text.split(","))
    if given.keys() != HOSTS.keys() or not all(port.isdecimal() for port in given.values()):
        raise argparse.ArgumentTypeError(f"expected HOST=PORT for each of {', '.join(HOSTS)}, not {text!r}")
    return {host: int(port) for host, port in given.items()}


def _complain(message: str) -> int:
    print(f"harness.demo: {message}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
