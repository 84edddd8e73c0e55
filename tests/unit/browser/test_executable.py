"""Where the browser is looked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.browser.executable import INSTALL, VARIABLE, BrowserKind, find, has_webmcp, host_arguments
from harness.model.browser_settings import BrowserSettings
from harness.recovery.failure import Failed


def program(path: Path, content: str = "\x7fELF") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    path.chmod(0o755)
    return path


def own(tmp_path: Path) -> Path:
    return tmp_path / "pw" / "chromium-1255" / "chrome-linux64" / "chrome"


def lookup(tmp_path: Path, settings: BrowserSettings, environment: dict[str, str] | None = None) -> Path:
    folder = tmp_path / "bin"

    def find_program(name: str) -> str | None:
        path = Path(name) if name.startswith("/") else folder / name
        return str(path) if path.exists() else None

    return find(settings, own(tmp_path), environment or {}, find_program)


def test_option_before_environment_before_all(tmp_path: Path) -> None:
    program(own(tmp_path))
    asked, named = program(tmp_path / "asked"), program(tmp_path / "named")
    assert lookup(tmp_path, BrowserSettings(executable=str(asked)), {VARIABLE: str(named)}) == asked
    assert lookup(tmp_path, BrowserSettings(), {VARIABLE: str(named)}) == named


def test_asked_for_and_not_there(tmp_path: Path) -> None:
    program(own(tmp_path))
    with pytest.raises(Failed) as raised:
        lookup(tmp_path, BrowserSettings(executable="/no/such"))
    assert raised.value.failure.code == "BROWSER_LAUNCH_FAILED"
    assert "/no/such" in raised.value.failure.message


def test_own_shell_then_own_browser_then_system(tmp_path: Path) -> None:
    system = program(tmp_path / "bin" / "chromium")
    assert lookup(tmp_path, BrowserSettings()) == system
    full = program(own(tmp_path))
    assert lookup(tmp_path, BrowserSettings()) == full
    shell = program(tmp_path / "pw" / "chromium_headless_shell-1255" / "linux" / "headless_shell")
    assert lookup(tmp_path, BrowserSettings()) == shell
    assert lookup(tmp_path, BrowserSettings(headed=True)) == full


def test_the_systems_shell_only_without_a_window(tmp_path: Path) -> None:
    shell = program(tmp_path / "bin" / "chromium-headless-shell")
    full = program(tmp_path / "bin" / "google-chrome")
    assert lookup(tmp_path, BrowserSettings()) == shell
    assert lookup(tmp_path, BrowserSettings(headed=True)) == full


def test_a_snap_stub_is_no_browser(tmp_path: Path) -> None:
    program(tmp_path / "bin" / "chromium-browser", "#!/bin/sh\necho 'snap install chromium'\n")
    with pytest.raises(Failed) as raised:
        lookup(tmp_path, BrowserSettings())
    assert raised.value.failure.message == INSTALL
    wrapper = program(tmp_path / "bin" / "google-chrome", "#!/bin/sh\nexec /opt/chrome\n")
    assert lookup(tmp_path, BrowserSettings()) == wrapper


def test_a_shell_shows_no_window(tmp_path: Path) -> None:
    program(tmp_path / "bin" / "chromium-headless-shell")
    with pytest.raises(Failed) as raised:
        lookup(tmp_path, BrowserSettings(headed=True))
    assert raised.value.failure.message == (
        "no browser that can show a window (only chromium-headless-shell is installed): "
        "apt-get install chromium, or drop --headed"
    )


def test_no_browser_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(Failed) as raised:
        lookup(tmp_path, BrowserSettings(headed=True))
    assert raised.value.failure.message == INSTALL
    assert "apt-get install chromium" in INSTALL


def test_a_browser_with_webmcp_has_all_features_in_one_argument() -> None:
    """Chromium obeys only the last `--enable-features`."""
    given = ["--no-first-run", "--enable-features=Mine,Other", "--enable-features=Third"]
    *others, features = BrowserKind(sealed=False, webmcp=True).arguments(given)
    assert others == ["--no-first-run"]
    assert features.endswith(",Mine,Other,Third,WebMCP")
    assert BrowserKind(sealed=False).arguments(given) == given
    mapped = BrowserKind(sealed=False).arguments([*given, *host_arguments({"a.test": 1}, {}, "key")])
    features = [each for each in mapped if each.startswith("--enable-features=")]
    assert len(features) == 1
    assert features[0].endswith(",Mine,Other,Third,LocalNetworkAccessChecks:LocalNetworkAccessChecksWarn/true")


@pytest.mark.parametrize(
    ("line", "there"),
    [
        ("chromium --enable-features=A,WebMCP --headless", True),
        ("chromium --enable-features=WebMCP --enable-features=A", False),
        ("chromium --enable-features=WebMCPTesting", False),
        ("chromium --enable-blink-features=WebMCP", False),
        ("chromium", False),
    ],
)
def test_a_command_line_tells_whether_pages_can_offer_tools(line: str, there: bool) -> None:
    assert has_webmcp(line) is there
