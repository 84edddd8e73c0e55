"""URLs of browser endpoints, as people write them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

VARIABLE = "HARNESS_BROWSER_ENDPOINT"


def checked(urls: Sequence[str]) -> tuple[str, ...]:
    """URLs of browser endpoints as they stand; ValueError for one that is none, or is there twice."""
    for url in urls:
        try:
            parts = urlsplit(url)
            whole = parts.scheme in ("ws", "wss") and bool(parts.hostname) and parts.port != 0
        except ValueError:  # the port is none
            whole = False
        if not whole:
            raise ValueError(f"{url!r} is no browser endpoint: expected ws://HOST:PORT/PATH or wss://HOST/PATH")
    if twice := next((url for url in urls if urls.count(url) > 1), None):
        raise ValueError(f"{twice!r} is there twice: name each browser endpoint once")
    return tuple(urls)


def split(text: str) -> tuple[str, ...]:
    """`URL,URL`, as an option and the variable have it; ValueError for what is no endpoint."""
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
