"""Hosts of URLs and what `allowed_domains` lets through; names of tasks as names of folders. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from urllib.parse import urlsplit

_BARE = re.compile(r"(?:localhost|\[[0-9a-f:]+\]|[\w-]+(?:\.[\w-]+)+)(?::\d+)?(?=[/?#]|$)", re.IGNORECASE)
_FILE = re.compile(r"\.(?:html?|php|aspx?|jsp|json|xml|txt|pdf|csv)$", re.IGNORECASE)
"""What ends so is more likely a page beside the base URL than a host."""
_ASSET = r"[^/?#]+\.(?:ico|js|mjs|css|map|png|jpe?g|gif|svg|webp|woff2?|html?|json|xml|txt|webmanifest)(?:[?#]|$)"
"""A file beside the virtual hosts."""


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


@dataclass(frozen=True, slots=True)
class Domains:
    """Where a task may go: to the `allowed` hosts and those below them; everywhere, when none is named.

    `virtual` are URL templates of servers that serve several sites as the first part of a path, such as
    `http://localhost:8014/{host}/`. Of a URL that fits one the host is the one in its path.
    """

    allowed: tuple[str, ...] = ()
    virtual: tuple[str, ...] = ()

    def host(self, url: str) -> str:
        """The host that is meant, in lower case; empty when there is none."""
        for template in self.virtual:
            if found := _virtual(template).match(url):
                return found["host"].lower()
        return host_of(url)

    def allows(self, url: str) -> bool:
        """What has no host is not sent."""
        host = self.host(url)
        return not host or reaches(host, self.allowed)

    @property
    def servers(self) -> tuple[str, ...]:
        """The hosts that serve the virtual ones."""
        return tuple(dict.fromkeys(map(host_of, self.virtual)))


ANYWHERE = Domains()


def template_problem(template: str) -> str:
    """What is wrong with a template of virtual hosts; empty when nothing is."""
    parts = urlsplit(template)
    if parts.scheme not in ("http", "https") or not parts.hostname or template.count("{host}") != 1:
        return f"{template!r} must be written like 'http://localhost:8014/{{host}}/'"
    return "" if "{host}" in parts.path else f"{template!r} must have {{host}} in its path"


@cache
def _virtual(template: str) -> re.Pattern[str]:
    """A part of a path that names a file, such as `favicon.ico`, is no host."""
    before, _, _ = template.partition("{host}")
    return re.compile(rf"{re.escape(before)}(?!{_ASSET})(?P<host>[\w-]+(?:\.[\w-]+)+)(?=[/?#]|$)", re.IGNORECASE)


def with_scheme(url: str) -> str:
    """The URL that was probably meant by one that begins with a host (`shop.local/`); empty when it does not."""
    found = _BARE.match(url)
    if found is None or _FILE.search(found[0]):
        return ""
    return f"http://{url}" if url[found.end() :] else f"http://{url}/"


# Names of tasks as names of directories: safe and different on every disk.

LONGEST = 120

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?", re.IGNORECASE)


def slug(name: str) -> str:
    """The name itself where it is safe, else what is safe of it with a short hash of all of it."""
    safe = _UNSAFE.sub("_", name)[:LONGEST].strip(".")
    if _RESERVED.fullmatch(safe):
        safe = f"_{safe}"
    return safe if safe == name else f"{safe.rstrip('_')}-{_hash(name)}"


def _hash(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:8]


# Numbers and texts of others in what people read.


def how_many(number: int, noun: str) -> str:
    """`1 task`, `2 tasks`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def blanked(text: str) -> str:
    """On one line and as long as it was: what cannot be printed, and could steer a terminal, becomes a blank."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
