"""Hosts of URLs, and which of them `allowed_domains` lets a task reach. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

_BARE = re.compile(r"(?:localhost|\[[0-9a-f:]+\]|[\w-]+(?:\.[\w-]+)+)(?::\d+)?(?=[/?#]|$)", re.IGNORECASE)
_FILE = re.compile(r"\.(?:html?|php|aspx?|jsp|json|xml|txt|pdf|csv)$", re.IGNORECASE)
"""What ends so is more likely a page beside the base URL than a host."""


def host_of(url: str) -> str:
    """Host name in lower case, without a port; empty when there is none."""
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""


def names(allowed: Sequence[str]) -> tuple[str, ...]:
    """`allowed_domains` as bare host names: scheme, path, port and a leading `*.` are dropped."""
    bare = (host_of(entry if "://" in entry else f"//{entry}") for entry in allowed)
    return tuple(name.removeprefix("*.") for name in bare if name)


def reaches(host: str, allowed: Sequence[str]) -> bool:
    """Whether the host is an allowed one or below one. Nothing declared allows all."""
    return not allowed or any(host == name or host.endswith(f".{name}") for name in names(allowed))


def with_scheme(url: str) -> str:
    """The URL that was probably meant by one that begins with a host (`shop.local/`); empty when it does not."""
    found = _BARE.match(url)
    if found is None or _FILE.search(found[0]):
        return ""
    return f"http://{url}" if url[found.end() :] else f"http://{url}/"
