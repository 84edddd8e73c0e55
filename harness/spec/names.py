"""Hosts of URLs and the hosts that `allowed_domains` allows; names of folders and runs; texts that control nothing."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path, PurePosixPath, PureWindowsPath
from posixpath import normpath
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from msgspec import Struct

HOST = re.compile(r"[^\s/:?#@]+")
NO_HOST, HOST_EXPECTED = "not a host name", "a host such as shop.local"
"""What is said of a text that is no `HOST`."""
_BARE = re.compile(r"(?:localhost|\[[0-9a-f:]+\]|[\w-]+(?:\.[\w-]+)+)(?::\d+)?(?=[/?#]|$)", re.IGNORECASE)
_FILE = re.compile(r"\.(?:html?|php|aspx?|jsp|json|xml|txt|pdf|csv)$", re.IGNORECASE)
"""A text with such an ending is more likely a page below the base URL than a host."""
_ASSET = r"[^/?#]+\.(?:ico|js|mjs|css|map|png|jpe?g|gif|svg|webp|woff2?|html?|json|xml|txt|webmanifest)(?:[?#]|$)"
"""Matches a file next to the virtual hosts."""


def host_of(url: str) -> str:
    """The host name in lower case, without a port; empty if there is none."""
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""


def origin_of(url: str) -> str:
    """Scheme, host and port of a URL, as in `http://shop.test:8080`; a default port is left out."""
    parts = urlsplit(url)
    default = {"http": 80, "https": 443}.get(parts.scheme)
    port = "" if parts.port in (None, default) else f":{parts.port}"
    return f"{parts.scheme}://{(parts.hostname or '').lower()}{port}"


def names(allowed: Sequence[str]) -> tuple[str, ...]:
    """`allowed_domains` as bare host names: without scheme, path, port and a leading `*.`."""
    bare = (host_of(entry if "://" in entry else f"//{entry}") for entry in allowed)
    return tuple(name.removeprefix("*.") for name in bare if name)


def reaches(host: str, allowed: Sequence[str]) -> bool:
    """Return whether the host is an allowed one or a subdomain of one. An empty list allows all."""
    return not allowed or any(host == name or host.endswith(f".{name}") for name in names(allowed))


class Domains(Struct, frozen=True):
    """The hosts that a task may reach: the `allowed` ones and their subdomains, or every host if none is named.

    `virtual` has URL templates of servers that serve several sites, each under a path such as
    `http://localhost:8014/{host}/`. The host of a URL that fits a template is the one in its path. What else such a
    server has is shared by its sites, and allowed with them.
    """

    allowed: tuple[str, ...] = ()
    virtual: tuple[str, ...] = ()

    def host(self, url: str) -> str:
        """The host that the URL stands for, in lower case; empty if there is none."""
        return self._virtual_host(url) or host_of(url)

    def allows(self, url: str) -> bool:
        """Return whether the URL may be requested. A URL without a host is not sent, and allowed."""
        host = self.host(url)
        return not host or reaches(host, self.allowed) or self.shares(url)

    def shares(self, url: str) -> bool:
        """Return whether the URL is of a server of virtual hosts, and of none of these, such as `/static/app.js`."""
        origin, _ = _origin_and_path(url) if self.virtual else ("", "")
        return any(_virtual(each)[0] == origin for each in self.virtual) and not self._virtual_host(url)

    def _virtual_host(self, url: str) -> str:
        if self.virtual:
            origin, path = _origin_and_path(url)
            found = (each[1].match(path) for each in map(_virtual, self.virtual) if each[0] == origin)
            return next((match["host"].lower() for match in found if match), "")
        return ""

    @property
    def servers(self) -> tuple[str, ...]:
        """The hosts of the servers behind the virtual ones."""
        return tuple(dict.fromkeys(map(host_of, self.virtual)))


ANYWHERE = Domains()


def template_problem(template: str) -> str:
    """The error in a template of virtual hosts; empty if there is none."""
    parts = urlsplit(template)
    if parts.scheme not in ("http", "https") or not parts.hostname or template.count("{host}") != 1:
        return f"{template!r} must be written like 'http://localhost:8014/{{host}}/'"
    return "" if "{host}" in parts.path else f"{template!r} must have {{host}} in its path"


@cache
def _virtual(template: str) -> tuple[str, re.Pattern[str]]:
    """Origin and pattern of a template. A path part that names a file, such as `favicon.ico`, is not a host."""
    before, _, _ = urlsplit(template).path.partition("{host}")
    host = rf"{re.escape(before)}(?!{_ASSET})(?P<host>[\w-]+(?:\.[\w-]+)+)(?=[/;]|$)"
    return origin_of(template), re.compile(host, re.IGNORECASE)


def _origin_and_path(url: str) -> tuple[str, str]:
    """Origin and path as the server reads them, so that no other spelling leads around `allowed_domains`."""
    try:
        origin, path = origin_of(url), unquote(urlsplit(url).path).replace("\\", "/")
    except ValueError:
        return "", ""
    return origin, "/" + normpath(f"/{path}").lstrip("/") + "/" * (path.endswith("/") and path.strip("/") != "")


def with_scheme(url: str) -> str:
    """The URL that was probably meant by a text that begins with a host (`shop.local/`); empty for other texts."""
    found = _BARE.match(url)
    if found is None or _FILE.search(found[0]):
        return ""
    return f"http://{url}" if url[found.end() :] else f"http://{url}/"


SCHEMES = ("http", "https", "about")
"""The schemes of URLs that a task may open."""
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_BEFORE_URL = "".join(map(chr, range(0x21)))
"""What a browser ignores before a URL: spaces and control characters."""
_IN_URL = str.maketrans("", "", "\t\n\r")
"""What it ignores within one."""


def forbidden_scheme(url: str) -> str:
    """The scheme of a URL that no task may open, as the browser reads it (`file`, `chrome`); empty if it may."""
    found = _SCHEME.match(url.lstrip(_BEFORE_URL).translate(_IN_URL))
    return "" if found is None or found[1].lower() in SCHEMES else found[1]


# Hosts, as requests name them in `Host` and `Origin`. They decide who may read an answer, so they are read strictly.

_AUTHORITY = re.compile(
    r"(?:\[([0-9a-f:.]+)\]|([a-z0-9_-]+(?:\.[a-z0-9_-]+)*))(?::([1-9][0-9]{0,4}))?", re.IGNORECASE | re.ASCII
)


class HostPort(NamedTuple):
    """A host and its port."""

    name: str
    """In lower case; an IPv6 address without brackets and in its shortest form."""
    port: int | None
    """None: the usual one of the scheme."""


def read_host(text: str) -> HostPort | None:
    """The `host` or `host:port` of a request; None for anything else, such as `127.0.0.1:1:2` or `user@host`."""
    found = _AUTHORITY.fullmatch(text)
    if found is None or int(found[3] or 0) > 65535:
        return None
    try:
        name = _shortest(found[1]) if found[1] else found[2].lower()
    except ValueError:
        return None
    return HostPort(name, int(found[3]) if found[3] else None)


def host_name(name: str) -> str:
    """A host that a person has written, as requests name it: in lower case, no brackets, IDNA for other letters."""
    bare = name.lower().removeprefix("[").removesuffix("]")
    try:
        return _shortest(bare) if ":" in bare else bare.encode("idna").decode()
    except ValueError:
        return bare


def _shortest(address: str) -> str:
    """An IPv6 address in its shortest form. Raises ValueError."""
    from ipaddress import IPv6Address  # only servers need it

    return str(IPv6Address(address))


_LONGEST = 120

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?", re.IGNORECASE)


def slug(name: str) -> str:
    """The name itself if it is safe as a folder name, else its safe characters and a short hash of the name."""
    safe = _UNSAFE.sub("_", name)[:_LONGEST].strip(".")
    if _RESERVED.fullmatch(safe) or safe.startswith("-"):
        safe = f"_{safe}"
    return safe if safe == name else f"{safe.rstrip('_') or '_'}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def how_many(number: int, noun: str) -> str:
    """`1 task`, `2 tasks`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def list_some(names: Sequence[str], most: int = 5) -> str:
    """`a, b, c`; of many names the first ones, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def blank_unprintable(text: str) -> str:
    """The text on one line, of the same length: unprintable characters, which could steer a terminal, are blanks."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


_HALF = re.compile("[\ud800-\udfff]")


def well_formed(text: str) -> str:
    """The text with U+FFFD, as browsers show it, for half of a surrogate pair, which no file in UTF-8 can have."""
    return text if text.isascii() else _HALF.sub("\ufffd", text)


def new_run_id(now: datetime, pid: int) -> str:
    """A run id that sorts by time and is unique on one machine: time of day and process."""
    return f"{now:%Y%m%dT%H%M%S}-{pid}"


# The log of a GitHub job, in which a line can be a command: text of pages, tasks and files must not become one.

_NOTHING = "\u200b"
"""A space of zero width."""
_COMMAND = re.compile(r"((?:^|\r)[^\S\n]*:)(?=:)", re.MULTILINE)
"""`::error::`, at the beginning of a line or after spaces."""
_OLD_COMMAND = re.compile(r"##(?=\[)")
"""`##[error]`, anywhere."""


def commandless(text: str, environment: Mapping[str, str] = os.environ) -> str:
    """The text without workflow commands, looking the same; unchanged if no GitHub runner reads it."""
    if not environment.get("GITHUB_ACTIONS"):
        return text
    return _OLD_COMMAND.sub(f"##{_NOTHING}", _COMMAND.sub(rf"\1{_NOTHING}", text))


ABSENT = "there is no such file"


def file_problem(name: str, folder: Path) -> str | None:
    """The reason why a name is no file in the folder; None if it is one."""
    if "\0" in name:
        return "not a file name"
    if PurePosixPath(name).is_absolute() or PureWindowsPath(name).anchor or PureWindowsPath(name).drive:
        return "the path is absolute"
    if ".." in PureWindowsPath(name).parts:
        return "the path leaves the task's folder"
    try:
        there = (folder / name).resolve()
    except (OSError, RuntimeError):
        return "the path cannot be resolved"
    if not there.is_relative_to(folder.resolve()):
        return "the path leaves the task's folder through a link"
    return None if there.is_file() else ABSENT


def seconds(value: float) -> str:
    """Seconds with one decimal at most."""
    return f"{value:.1f}".removesuffix(".0") + "s"
