"""Hosts of requests: read strictly, so that nothing else is taken for one."""

from __future__ import annotations

from ipaddress import IPv6Address

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.spec.names import HostPort, host_name, read_host

LABEL = st.from_regex(r"[A-Za-z0-9_-]{1,20}", fullmatch=True)
NAME = st.lists(LABEL, min_size=1, max_size=4).map(".".join)
PORT = st.none() | st.integers(1, 65535)


@given(NAME | st.ip_addresses(v=4).map(str), PORT)
def test_names_and_ipv4_addresses(name: str, port: int | None) -> None:
    assert read_host(name if port is None else f"{name}:{port}") == HostPort(name.lower(), port)


@given(st.ip_addresses(v=6), PORT, st.booleans())
def test_ipv6_addresses_have_one_form(address: IPv6Address, port: int | None, long: bool) -> None:
    written = f"[{address.exploded.upper() if long else address}]"
    assert read_host(written if port is None else f"{written}:{port}") == HostPort(str(address), port)
    assert host_name(written) == str(address)


@given(st.text(max_size=40))
@example("127.0.0.1:1:2")
@example("[::1].x")
@example("localhost\n")
def test_whatever_is_read_is_written_like_that(text: str) -> None:
    """What is read as a host is that host, and its port, and nothing more: no path, no user, no second port."""
    if found := read_host(text):
        name = f"[{found.name}]" if ":" in found.name else found.name
        assert host_name(text.rpartition(":")[0] if found.port else text) == found.name
        assert read_host(name if found.port is None else f"{name}:{found.port}") == found


@pytest.mark.parametrize(
    "text",
    [
        "", ":80", "127.0.0.1:1:2", "[::1].x", "[::1]x", "x[::1]", "[::1", "::1", "[127.0.0.1]", "[::1%25eth0]",
        "[::g]", "local\u212aost", "local\u017fost",
        "user@127.0.0.1", "user:pw@localhost", "localhost.", "localhost..", ".localhost", "a..b", "localhost:",
        "localhost:0", "localhost:080", "localhost:65536", "localhost:8a", "localhost:-1", "localhost:\u0662",
        " localhost", "localhost ", "localhost\n", "localhost/x", "localhost?x", "localhost#x", "localhost\\x",
        "b\u00fccher.example", "loc%61lhost", "localhost,evil.example", "\uff4c\uff4fcalhost", "localhost\x00",
    ],
)  # fmt: skip
def test_what_is_no_host(text: str) -> None:
    assert read_host(text) is None
