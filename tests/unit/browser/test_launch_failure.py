"""What is told of a browser that does not start."""

from __future__ import annotations

import pytest

from harness.browser.executable import check_display, last_words, launch_error_text
from harness.recovery.failure import Failed

LOG = """BrowserType.launch: Target page, context or browser has been closed
Browser logs:

{block}
Call log:
  - <launching> /usr/bin/chromium --headless
  - <launched> pid=7
  - [pid=7][err] /usr/bin/chromium: 9: [: 25276502016: unexpected operator
{lines}
  - [pid=7] <process did exit: exitCode={code}, signal={signal}>
  - [pid=7] starting temporary directories cleanup
"""


def log(*lines: str, block: str = "<launching> x", code: str = "1", signal: str = "null") -> str:
    said = "\n".join(f"  - [pid=7][err] {line}" for line in lines)
    return LOG.format(block=block, lines=said, code=code, signal=signal)


def test_places_and_noise_are_left_out() -> None:
    message = log(
        "[7:9:1121/114021.8:ERROR:dbus/bus.cc:405] Failed to connect to the bus: no such file",
        "[7:7:1121/114021.9:ERROR:ui/ozone/x11.cc:257] Missing X server or $DISPLAY",
        "[7:7:1121/114021.9:ERROR:ui/aura/env.cc:253] The platform failed to initialize.  Exiting.",
    )
    assert last_words(message) == ("Missing X server or $DISPLAY", "The platform failed to initialize.  Exiting.")


def test_at_most_three_and_each_once() -> None:
    assert last_words(log("a", "b", "c", "c", "d")) == ("b", "c", "d")


def test_sandbox() -> None:
    message = log(
        "[7:7:0101/1.2:FATAL:zygote_host_impl_linux.cc(128)] No usable sandbox! If you are running on Ubuntu",
        "#0 0x55d0c0ffee base::debug",
        "Received signal 6",
        "  r8: 0000000000000000  r9: 00007ffd",
        "[end of stack trace]",
        block="Chromium sandboxing failed!\n====",
    )
    said = ("Chromium sandboxing failed", "No usable sandbox! If you are running on Ubuntu")
    assert last_words(message) == said
    assert launch_error_text(RuntimeError(message)) == "; ".join(said)


def test_without_words_the_end_is_told() -> None:
    assert launch_error_text(RuntimeError(log())) == "it ended with exit code 1"
    assert launch_error_text(RuntimeError(log(code="null", signal="SIGSEGV"))) == "it ended by SIGSEGV"


def test_playwrights_own_reason_comes_first() -> None:
    head = "Failed to launch: Error: spawn /etc/passwd EACCES"
    assert launch_error_text(RuntimeError(f"BrowserType.launch: {head}\nCall log:\n  - [pid=N/A] cleanup")) == head
    assert launch_error_text(RuntimeError("BrowserType.launch: Timeout 30000ms exceeded.\n  - [pid=7][err] stuck")) == (
        "Timeout 30000ms exceeded.: stuck"
    )
    assert launch_error_text(TimeoutError()) == "TimeoutError"


@pytest.mark.parametrize(
    ("headed", "environment", "platform"),
    [
        (False, {}, "linux"),
        (True, {"DISPLAY": ":0"}, "linux"),
        (True, {"WAYLAND_DISPLAY": "wayland-0"}, "linux"),
        (True, {}, "darwin"),
    ],
)
def test_where_a_window_may_be_shown(headed: bool, environment: dict[str, str], platform: str) -> None:
    check_display(headed, environment, platform)


@pytest.mark.parametrize("environment", [{}, {"DISPLAY": ""}])
def test_no_display(environment: dict[str, str]) -> None:
    with pytest.raises(Failed) as raised:
        check_display(True, environment, "linux")
    assert raised.value.failure.code == "BROWSER_LAUNCH_FAILED"
    assert "DISPLAY is not set" in raised.value.failure.message
