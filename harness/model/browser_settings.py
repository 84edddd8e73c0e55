"""`[tool.harness.browser]`: how browsers are started, what contexts emulate, and the URLs of browsers elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from harness.spec.context import ContextOptions, Size
from harness.spec.parametrize import is_case_id


def _profile_name(name: str) -> str:
    """Return the name; raises ValueError for one that cannot be a part of a task's id."""
    if not is_case_id(name):
        raise ValueError("the name of a profile has letters, digits and any of `_ . + @ = -`")
    return name


class BrowserSettings(ContextOptions):
    """How the browser is started, and what the contexts of all tasks emulate."""

    executable: str | None = Field(
        None, description="Default: Playwright's own browser, or else the system's Chromium or Chrome."
    )
    channel: str | None = None
    headed: bool = False
    slowmo: float = Field(0, ge=0)
    viewport: Size | None = Field((1280, 720), description="Width and height of pages, in pixels.")
    full_page_screenshot: bool = False
    webrtc: bool = Field(
        False, description="Allow WebRTC, which sends UDP anywhere, to pages of tasks without `allowed_domains`."
    )
    args: tuple[str, ...] = Field((), description="Additional arguments for the browser's command line.")
    profiles: dict[Annotated[str, AfterValidator(_profile_name)], ContextOptions] = Field(
        default_factory=dict,
        description="Contexts by name. `--browser-profile NAME` runs each task with one of them.",
    )


OPTIONS = ("--task-browser-endpoint", "--browser-endpoint")
VARIABLE = "HARNESS_BROWSER_ENDPOINT"
_PARTS = re.compile(r"(?P<scheme>[^:/?#]+://|)(?P<login>[^/?#]*@|)(?P<host>[^/?#]*)(?P<path>[^?#]*)(?P<query>.*)", re.S)
"""Matches every text, also one that is no URL."""
_PORT = re.compile(r":([0-9]{1,9})$", re.ASCII)
_HIGHEST_PORT = 65535
_LONG = 12
"""The length from which a text counts as a secret by itself: nobody guesses it."""
_TOLD = 4
"""The length from which a text counts as a secret in a place that is made for one."""
_USUAL = {"ws://": ":80", "wss://": ":443"}
"""The default ports, which need not be written."""


def check_urls(urls: Sequence[str]) -> tuple[str, ...]:
    """Return the URLs of browser endpoints unchanged; raises ValueError for a bad or a repeated one."""
    for number, url in enumerate(urls, 1):
        try:
            parts = urlsplit(url)
            whole = parts.scheme in ("ws", "wss") and bool(parts.hostname) and parts.port != 0
        except ValueError:  # the port is invalid
            whole = False
        if not whole:
            which = f"{_shown_url(url)!r} (URL {number} of {len(urls)})"
            wanted = "expected ws://HOST:PORT/PATH or wss://HOST/PATH"
            raise ValueError(f"{which} is not a browser endpoint: {wanted}{_url_advice(url)}")
    if twice := next((url for url in urls if urls.count(url) > 1), None):
        raise ValueError(f"{_shown_url(twice)!r} is given twice: name each browser endpoint once")
    return tuple(urls)


def _url_advice(url: str) -> str:
    """More about a bad URL: that it is not shown, or the range of ports."""
    if _shown_url(url).endswith("..."):
        return " (what was written is not shown: it may hold a secret)"
    port = _PORT.search(_parts(url)["host"])
    return f"; a port is at most {_HIGHEST_PORT}" if port and int(port[1]) > _HIGHEST_PORT else ""


def split(text: str) -> tuple[str, ...]:
    """Split `URL,URL`, as an option and the variable have it (URLs have no comma); ValueError for a bad URL."""
    urls = tuple(url.strip() for url in text.split(",") if url.strip())
    if not urls:
        raise ValueError("expected a URL such as ws://127.0.0.1:3000/, found none")
    return check_urls(urls)


def of_environment(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The endpoints of the environment variable; raises ValueError, naming it, for a bad URL."""
    try:
        return split(environ[VARIABLE]) if environ.get(VARIABLE) else ()
    except ValueError as error:
        raise ValueError(f"{VARIABLE}: {error}") from error


def _shown_url(url: str) -> str:
    """The URL without path and user, which may be secrets. Of a mistyped URL only the scheme is shown."""
    parts = _parts(url)
    if not parts["scheme"] or "@" in parts["path"] + parts["query"]:
        return parts["scheme"] + "..."
    return parts["scheme"] + parts["host"]


def names(urls: Sequence[str]) -> tuple[str, ...]:
    """The texts shown for endpoints; equal ones are numbered."""
    hosts = [_shown_url(url) for url in urls]
    return tuple(
        name if hosts.count(name) == 1 else f"{name}#{hosts[: number + 1].count(name)}"
        for number, name in enumerate(hosts)
    )


def secrets(urls: Sequence[str]) -> Iterator[str]:
    """The parts that may give access to endpoints: path, query and user.

    A short part counts only together with its host or name: `/playwright` and `admin` appear in many pages and stack
    traces.
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
    assert found is not None  # every part is optional, so it always matches
    return found.groupdict()
