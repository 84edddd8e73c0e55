"""A browser is found without starting one, and installed where there is none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bootstrap.browser import find_browser, is_snap
from bootstrap.browser_install import DOWNLOAD_SECONDS, prepare_browser
from bootstrap.machine import TIMED_OUT, Finished, SetupError
from bootstrap.packages import SystemPackages
from tests.acceptance.fake_machine import FAILED, FakeMachine, machine_of, program, with_apt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def playwright_in(venv: Path) -> Path:
    package = venv / "lib" / "python3.11" / "site-packages" / "playwright" / "driver" / "package"
    package.mkdir(parents=True)
    browsers = [{"name": "chromium", "revision": "7"}, {"name": "chromium-headless-shell", "revision": "7"}]
    (package / "browsers.json").write_text(json.dumps({"browsers": browsers}))
    return package


def downloaded(cache: Path, name: str = "chromium_headless_shell-7") -> Path:
    (cache / name).mkdir(parents=True)
    (cache / name / "INSTALLATION_COMPLETE").touch()
    return program(cache / name / "chrome-headless-shell-linux64" / "chrome-headless-shell")


def test_the_variable_wins(tmp_path: Path) -> None:
    own = program(tmp_path / "mine")
    machine = machine_of(tmp_path, environ={"HARNESS_BROWSER_EXECUTABLE": str(own)})
    machine.programs["chromium"] = program(tmp_path / "chromium")
    assert find_browser(machine, tmp_path) == own


def test_a_variable_that_names_no_file_is_an_error(tmp_path: Path) -> None:
    machine = machine_of(tmp_path, environ={"HARNESS_BROWSER_EXECUTABLE": "/nowhere"})
    with pytest.raises(SetupError, match="names a file that does not exist: /nowhere"):
        find_browser(machine, tmp_path)


@pytest.mark.parametrize(
    ("system", "environ", "cache"),
    [
        ("Linux", {}, "home/.cache/ms-playwright"),
        ("Linux", {"XDG_CACHE_HOME": "xdg"}, "xdg/ms-playwright"),
        ("Darwin", {}, "home/Library/Caches/ms-playwright"),
        ("Linux", {"PLAYWRIGHT_BROWSERS_PATH": "shared"}, "shared"),
    ],
)
def test_playwrights_own_comes_before_the_systems(
    tmp_path: Path, system: str, environ: Mapping[str, str], cache: str
) -> None:
    playwright_in(tmp_path / "venv")
    absolute = {name: str(tmp_path / value) for name, value in environ.items()}
    machine = machine_of(tmp_path, system=system, environ=absolute)
    machine.programs["chromium"] = program(tmp_path / "chromium")
    assert find_browser(machine, tmp_path / "venv") == tmp_path / "chromium"
    own = downloaded(tmp_path / cache)
    assert find_browser(machine, tmp_path / "venv") == own
    assert machine.commands == []


def test_playwrights_browsers_may_lie_in_its_package(tmp_path: Path) -> None:
    package = playwright_in(tmp_path / "venv")
    own = downloaded(package / ".local-browsers", "chromium-7")
    machine = machine_of(tmp_path, environ={"PLAYWRIGHT_BROWSERS_PATH": "0"})
    assert find_browser(machine, tmp_path / "venv") == own


def test_an_older_revision_and_a_download_cut_off_do_not_count(tmp_path: Path) -> None:
    playwright_in(tmp_path / "venv")
    cache = tmp_path / "home" / ".cache" / "ms-playwright"
    downloaded(cache, "chromium_headless_shell-6")
    cut_off = downloaded(cache, "chromium-7")
    (cut_off.parents[1] / "INSTALLATION_COMPLETE").unlink()
    assert find_browser(machine_of(tmp_path), tmp_path / "venv") is None


def test_the_headless_shell_comes_before_full_chromium(tmp_path: Path) -> None:
    machine = machine_of(tmp_path)
    for name in ("google-chrome", "chromium", "chromium-headless-shell"):
        machine.programs[name] = program(tmp_path / "bin" / name)
    assert find_browser(machine, tmp_path) == tmp_path / "bin" / "chromium-headless-shell"


def test_chrome_of_a_mac_is_found(tmp_path: Path) -> None:
    chrome = program(tmp_path / "Applications" / "Google Chrome.app" / "Contents" / "MacOS" / "Google Chrome")
    machine = machine_of(tmp_path, "", system="Darwin", applications=(tmp_path / "Applications",))
    assert find_browser(machine, tmp_path) == chrome


def test_ubuntus_snap_is_passed_over(tmp_path: Path) -> None:
    stub = program(tmp_path / "bin" / "chromium-browser", '#!/bin/sh\nexec /snap/bin/chromium "$@"\n')
    (tmp_path / "snap" / "bin").mkdir(parents=True)
    launcher = tmp_path / "snap" / "bin" / "chromium"
    launcher.symlink_to(program(tmp_path / "bin" / "snap"))
    machine = machine_of(tmp_path, "ubuntu")
    machine.programs = {"chromium-browser": stub, "chromium": launcher}
    assert find_browser(machine, tmp_path) is None
    machine.programs["google-chrome"] = program(tmp_path / "bin" / "google-chrome")
    assert find_browser(machine, tmp_path) == tmp_path / "bin" / "google-chrome"


def test_debians_launcher_script_is_no_snap(tmp_path: Path) -> None:
    assert not is_snap(program(tmp_path / "chromium", "#!/bin/sh\nexec $LIBDIR/chromium\n"))


def installs(machine: FakeMachine, words: str, name: str, path: Path) -> None:
    """A command containing `words` puts `name` on the machine."""

    def answer(_command: Sequence[str]) -> Finished:
        machine.programs[name] = program(path)
        return Finished(0)

    machine.rules.append((words, answer))


def prepared(machine: FakeMachine, tmp_path: Path) -> Path:
    return prepare_browser(machine, SystemPackages(machine), tmp_path / "venv")


def test_nothing_is_run_where_a_browser_is(tmp_path: Path) -> None:
    machine = machine_of(tmp_path)
    machine.programs["chromium"] = program(tmp_path / "chromium")
    assert prepared(machine, tmp_path) == tmp_path / "chromium"
    assert machine.commands == []


def test_root_on_debian_gets_debians_headless_shell(tmp_path: Path) -> None:
    machine = with_apt(machine_of(tmp_path))
    installs(machine, "recommends chromium-headless-shell", "chromium-headless-shell", tmp_path / "shell")
    assert prepared(machine, tmp_path) == tmp_path / "shell"
    assert not machine.ran("playwright")


def test_a_debian_without_that_package_gets_chromium(tmp_path: Path) -> None:
    machine = with_apt(machine_of(tmp_path))
    machine.on("recommends chromium-headless-shell", FAILED)
    installs(machine, "recommends chromium", "chromium", tmp_path / "chromium")
    assert prepared(machine, tmp_path) == tmp_path / "chromium"


def test_ubuntu_gets_playwrights_own_with_what_it_needs(tmp_path: Path) -> None:
    playwright_in(tmp_path / "venv")
    machine = with_apt(machine_of(tmp_path, "ubuntu"))
    cache = tmp_path / "home" / ".cache" / "ms-playwright"

    def download(_command: Sequence[str]) -> Finished:
        downloaded(cache)
        return Finished(0)

    machine.rules.append(("playwright install --with-deps --only-shell chromium", download))
    assert prepared(machine, tmp_path).is_relative_to(cache)
    assert not machine.ran("apt-get")
    assert {limit for line, limit in machine.limits.items() if "playwright install" in line} == {DOWNLOAD_SECONDS}


def test_a_users_debian_is_changed_only_when_the_download_failed(tmp_path: Path) -> None:
    machine = with_apt(machine_of(tmp_path, is_root=False))
    machine.programs["sudo"] = Path("/usr/bin/sudo")
    machine.on("playwright install", Finished(TIMED_OUT, "gave up after 300 s"))
    installs(machine, "recommends chromium-headless-shell", "chromium-headless-shell", tmp_path / "shell")
    assert prepared(machine, tmp_path) == tmp_path / "shell"
    order = [line for line in machine.commands if "playwright" in line or "sudo -n true" in line]
    assert "playwright" in order[0]
    assert not machine.ran("--with-deps")


@pytest.mark.parametrize(
    ("distribution", "system", "advice"),
    [
        ("debian", "Linux", "apt-get install chromium-headless-shell"),
        ("ubuntu", "Linux", "playwright install --with-deps --only-shell chromium"),
        ("", "Darwin", "install Google Chrome"),
    ],
)
def test_nothing_installed_is_one_line_that_says_what_to_do(
    tmp_path: Path, distribution: str, system: str, advice: str
) -> None:
    machine = machine_of(tmp_path, distribution, system=system, is_root=False)
    machine.on("playwright install", FAILED)
    with pytest.raises(SetupError) as raised:
        prepared(machine, tmp_path)
    assert advice in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_browser_that_does_not_start_is_not_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    machine = machine_of(tmp_path, "fedora", is_root=False)
    installs(machine, "playwright install", "chromium", tmp_path / "chromium")
    machine.on("--version", Finished(127, "error while loading shared libraries: libnss3.so"))
    with pytest.raises(SetupError, match="no browser could be installed"):
        prepared(machine, tmp_path)
    assert "does not start: error while loading shared libraries: libnss3.so" in capsys.readouterr().out
