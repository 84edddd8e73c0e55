"""URLs of browser endpoints, as people write them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import urlsplit

OPTIONS = ("--task-browser-endpoint", "--browser-endpoint")
VARIABLE = "HARNESS_BROWSER_ENDPOINT"
_PARTS = re.compile(r"(?P<scheme>[^:/?#]+://|)(?P<login>[^/?#]*@|)(?P<host>[^/?#]*)(?P<path>[^?#]*)(?P<query>.*)", re.S)
"""Of any text, also one that is no URL."""
_PORT = re.compile(r":([0-9]{1,9})$", re.ASCII)
HIGHEST_PORT = 65535
_LONG = 12
"""Letters of what nobody guesses."""
_TOLD = 4
"""Letters of what is a secret because it stands where one is expected."""
_USUAL = {"ws://": ":80", "wss://": ":443"}
"""Ports that need not be written."""


def checked(urls: Sequence[str]) -> tuple[str, ...]:
    """URLs of browser endpoints as they stand; ValueError for one that is none, or is there twice."""
    for number, url in enumerate(urls, 1):
        try:
            parts = urlsplit(url)
            whole = parts.scheme in ("ws", "wss") and bool(parts.hostname) and parts.port != 0
        except ValueError:  # the port is none
            whole = False
        if not whole:
            which = f"{shown(url)!r} (URL {number} of {len(urls)})"
            wanted = "expected ws://HOST:PORT/PATH or wss://HOST/PATH"
            raise ValueError(f"{which} is no browser endpoint: {wanted}{_more(url)}")
    if twice := next((url for url in urls if urls.count(url) > 1), None):
        raise ValueError(f"{shown(twice)!r} is there twice: name each browser endpoint once")
    return tuple(urls)


def _more(url: str) -> str:
    """What else there is to say of one that is none."""
    if shown(url).endswith("..."):
        return " (what was written is not shown: it may hold a secret)"
    port = _PORT.search(_parts(url)["host"])
    return f"; a port is at most {HIGHEST_PORT}" if port and int(port[1]) > HIGHEST_PORT else ""


def split(text: str) -> tuple[str, ...]:
    """`URL,URL`, as an option and the variable have it; ValueError for what is no endpoint. No comma is part of one."""
    urls = tuple(url.strip() for url in text.split(",") if url.strip())
    if not urls:
        raise ValueError("expected a URL such as ws://127.0.0.1:3000/, found none")
    return checked(urls)


def of_environment(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Those of the variable; ValueError, naming it, for what is no endpoint."""
    try:
        return split(environ[VARIABLE]) if environ.get(VARIABLE) else ()
    except ValueError as error:
        raise ValueError(f"{VARIABLE}: {error}") from error


def shown(url: str) -> str:
    """Without path and user, which may be secrets. Of a mistyped one, where they may stand anywhere: its scheme."""
    parts = _parts(url)
    if not parts["scheme"] or "@" in parts["path"] + parts["query"]:
        return parts["scheme"] + "..."
    return parts["scheme"] + parts["host"]


def names(urls: Sequence[str]) -> tuple[str, ...]:
    """How endpoints are shown; those alike are numbered."""
    hosts = [shown(url) for url in urls]
    return tuple(
        name if hosts.count(name) == 1 else f"{name}#{hosts[: number + 1].count(name)}"
        for number, name in enumerate(hosts)
    )


def secrets(urls: Sequence[str]) -> Iterator[str]:
    """What may open them to others: path, query and user.

    What is short counts only beside its host or name: `/playwright` and `admin` stand in many pages and stack traces.
    """
    for parts in map(_parts, urls):
        login, path, query = parts["login"].removesuffix("@"), parts["path"], parts["query"]
        hosts = {parts["host"], parts["host"].removesuffix(_USUAL.get(parts["scheme"].lower(), ""))}
        yield from (host + path for host in sorted(hosts) if path.strip("/"))
        yield from (f"{host}{path}{query}" for host in sorted(hosts) if query)
        pairs = [pair.partition("=") for pair in query[1:].split("&")]
        yield from ("".join(pair) for pair in pairs if len(pair[2]) >= _TOLD)
        yield from (login,) if ":" in login else ()
        password = login.partition(":")[2]
        yield from (password,) if len(password) >= _TOLD else ()
        alone = (*path.split("/"), *(value or name for name, _, value in pairs), login)
        yield from (part for part in alone if len(part) >= _LONG)


def _parts(url: str) -> dict[str, str]:
    found = _PARTS.match(url)
    assert found is not None  # every part may be empty
    return found.groupdict()
