"""Finds the browser: the requested executable, else Playwright's own download, else the system's."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from harness.browser.domains import no_hosts, resolver_rules
from harness.model.browser_settings import BrowserSettings
from harness.recovery.failure import Failed, Failure

# The flags of Chromium. Pure.

BASE = (
    "--disable-gpu",
    "--disable-quic",
    "--disable-auto-reload",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
_SEALED = ("--force-webrtc-ip-handling-policy=disable_non_proxied_udp",)
"""Arguments for a browser whose sessions all have allowed_domains. WebRTC sends UDP past the proxy that blocks every
other request; with these it sends none, not even to hosts that are allowed.
"""

_FEATURES = "--enable-features="
_OF_PLAYWRIGHT = ("CDPScreenshotNewSurface", "SkipListAccountsWithoutGaiaCookies")
"""What Playwright enables itself. Chromium obeys only the last `--enable-features`, so ours must repeat it."""
WEBMCP = "WebMCP"
"""The feature of Chromium by which pages offer tools (docs/decisions/027-webmcp.md)."""

_ONE_SPACE = f"{_FEATURES}LocalNetworkAccessChecks:LocalNetworkAccessChecksWarn/true"
"""Hosts of a task are on loopback. A page that a route answers has no address, so Chromium takes it for one of the
internet, and lets it ask nothing of loopback.
"""


_DEBUGGING_PORT = "--remote-debugging-port=0"
"""The argument of a browser that programs reach over the DevTools protocol: a port beside Playwright's pipe."""


class BrowserKind(Struct, frozen=True):
    """What a browser is told beside its hosts: sessions that want different kinds have different browsers."""

    sealed: bool
    """It sends no UDP."""
    webmcp: bool = False
    """Pages can offer tools in it."""
    debugged: bool = False
    """Programs of tasks reach it over the DevTools protocol (debugger.py)."""
    seat: int = 0
    """The number of the user whose browser it is, in tasks with several."""

    def arguments(self, others: Sequence[str]) -> list[str]:
        """All arguments of such a browser; where we enable a feature, all are in one argument."""
        found = [*others, *(_SEALED if self.sealed else ()), *((_DEBUGGING_PORT,) if self.debugged else ())]
        if not self.webmcp and _ONE_SPACE not in found:
            return found
        named = (each.removeprefix(_FEATURES) for each in found if each.startswith(_FEATURES))
        offered = (WEBMCP,) if self.webmcp else ()
        features = dict.fromkeys((*_OF_PLAYWRIGHT, *filter(None, ",".join(named).split(",")), *offered))
        return [*(each for each in found if not each.startswith(_FEATURES)), _FEATURES + ",".join(features)]


def has_webmcp(command_line: str) -> bool:
    """Return whether a browser was started so that Playwright finds the tools of pages in it."""
    enabled = re.findall(rf"{_FEATURES}(\S*)", command_line)
    return bool(enabled) and WEBMCP in enabled[-1].split(",")


def host_arguments(hosts: Mapping[str, int], secure: Mapping[str, int], spki: str) -> list[str]:
    """Arguments that map the hosts (`secure`: their https) and accept their certificates (`ThrowAwayKey`)."""
    if not hosts:
        return []
    rules = resolver_rules(hosts, secure)
    return [f"--host-resolver-rules={rules}", f"--ignore-certificate-errors-spki-list={spki}", _ONE_SPACE]


def unreachable_arguments(hosts: Iterable[str]) -> list[str]:
    """Arguments for a browser that cannot reach these hosts: no other server must be taken for them."""
    return [f"--host-resolver-rules={rules}"] if (rules := no_hosts(hosts)) else []


# The reason why a browser does not start, in one line. Pure.

_WORDS = 3
"""The number of lines of the browser's own log that are reported."""
_NO_DISPLAY = "a browser window needs a display, and DISPLAY is not set: drop --headed, or run under xvfb-run"
_SANDBOX = "Chromium sandboxing failed"
_NO_X = ("without having a XServer running", "Missing X server")
"""The messages of Playwright and of Chromium."""
_CLOSED = "has been closed"
_SAID = re.compile(r"^\[pid=\S+?\]\[(?:err|out)\]\s*")
_PLACE = re.compile(r"^\[[\d:/.]*:?(?:[A-Z]+:)?[^\]]*\.(?:cc|mm|h)[:(]\d+\)?\]\s*")
_NOISE = re.compile(
    r"^#\d+ 0x|^\s*r?[a-z0-9]{2,3}: [0-9a-f]{16}|Received signal|end of stack trace|Failed to connect to the bus"
    r"|unexpected operator|^DevTools listening"
)


def check_display(headed: bool, environment: Mapping[str, str], platform: str) -> None:
    """Raise Failed if a window is requested where none can be shown; only Linux tells that beforehand."""
    if headed and platform == "linux" and not (environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY")):
        raise Failed(Failure("BROWSER_LAUNCH_FAILED", _NO_DISPLAY))


def first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def launch_error_text(error: Exception) -> str:
    """The first line of Playwright's message, and the browser's last lines."""
    head = first_line(error).removeprefix("BrowserType.launch: ")
    words = "; ".join(last_words(str(error)))
    if _CLOSED in head:
        return words or "it ended at once"
    return f"{head}: {words}" if words else head


def last_words(message: str) -> tuple[str, ...]:
    """The last lines of the browser before it ended, at most WORDS of them; else its exit code."""
    said = list(dict.fromkeys(_browser_lines(message)))
    if _SANDBOX in message:
        return (_SANDBOX, *said[1 - _WORDS :])
    if said:
        return tuple(said[-_WORDS:])
    ended = re.search(r"process did exit: exitCode=(\w+), signal=(\w+)", message)
    if ended is None:
        return ()
    return (f"it ended by {ended[2]}" if ended[2] != "null" else f"it ended with exit code {ended[1]}",)


def _browser_lines(message: str) -> Iterator[str]:
    """The browser's lines. Playwright sometimes replaces them with its own advice, but the call log has them."""
    for line in message.splitlines():
        bare = line.strip().removeprefix("- ")
        text = _PLACE.sub("", _SAID.sub("", bare)).strip()
        if _SAID.match(bare) and text and not _NOISE.search(text):
            yield text


def no_display(error: Exception) -> bool:
    """Return whether the browser was to show a window and had no display."""
    return any(words in str(error) for words in _NO_X)


def sandboxing_failed(error: Exception) -> bool:
    """Return whether Chromium's own sandbox could not be set up: no user namespaces, or root."""
    return any(words in str(error) for words in (_SANDBOX, "No usable sandbox"))


# Finds out whether Chromium's own sandbox can work here.

_CONTAINER_MARKS = (Path("/.dockerenv"), Path("/run/.containerenv"))


def no_sandbox_reason(uid: int | None = None, marks: tuple[Path, ...] = _CONTAINER_MARKS) -> str | None:
    """The reason why the sandbox must be off: `root` or `container`; None if it can stay on."""
    if (os.geteuid() if uid is None else uid) == 0:
        return "root"
    return "container" if any(mark.exists() for mark in marks) else None


VARIABLE = "HARNESS_BROWSER_EXECUTABLE"
_HEADLESS_NAMES = ("chromium-headless-shell", "chrome-headless-shell", "headless_shell")
_FULL_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
INSTALL = "no browser found: apt-get install chromium, run `playwright install chromium`, or install google-chrome"
_NO_WINDOW = "no browser that can show a window (only {} is installed): apt-get install chromium, or drop --headed"

_Which = Callable[[str], str | None]


def find(settings: BrowserSettings, own: Path, environment: Mapping[str, str], which: _Which = shutil.which) -> Path:
    """The executable to start. `own` is the path of Playwright's download. Raises Failed if there is none."""
    asked = settings.executable or environment.get(VARIABLE)
    if asked:
        if (requested := which(asked)) is None:
            raise Failed(Failure("BROWSER_LAUNCH_FAILED", f"the requested browser was not found: {asked}"))
        return Path(requested)
    found = next(filter(_starts, _candidates(settings.headed, own, which)), None)
    if found is not None:
        return found
    shell = next(filter(_starts, _candidates(False, own, which)), None)
    raise Failed(Failure("BROWSER_LAUNCH_FAILED", _NO_WINDOW.format(shell.name) if shell else INSTALL))


def _starts(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK) and not _is_snap_stub(path)


def _candidates(headed: bool, own: Path, which: _Which) -> Iterator[Path]:
    if not headed:
        yield from _own_shells(own)
    yield own
    names = _FULL_NAMES if headed else _HEADLESS_NAMES + _FULL_NAMES
    yield from (Path(found) for found in map(which, names) if found)


def _own_shells(own: Path) -> Iterator[Path]:
    """The headless shells next to Playwright's full browser, which have the same revision."""
    if len(own.parents) < 3:
        return
    revision = own.parents[1].name.rpartition("-")[2]
    folder = own.parents[2] / f"chromium_headless_shell-{revision}"
    for name in _HEADLESS_NAMES:
        yield from sorted(folder.glob(f"*/{name}"))


def _is_snap_stub(path: Path) -> bool:
    """Return whether it is Ubuntu's `chromium-browser`, a shell script that only refers to the snap."""
    with path.open("rb") as file:
        head = file.read(4096)
    return head.startswith(b"#!") and b"snap" in head
