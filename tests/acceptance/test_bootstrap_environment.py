"""`.venv` is made, kept, brought up to date or made anew; what the system lacks is installed or named."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bootstrap.driver import prepare_driver
from bootstrap.environment import Environment, Interpreter
from bootstrap.machine import Finished, SetupError
from bootstrap.packages import SystemPackages
from bootstrap.stamp import BUILDING, Stamp, State
from tests.acceptance.fake_machine import FAILED, FakeMachine, machine_of, program, with_apt

if TYPE_CHECKING:
    from collections.abc import Sequence


@pytest.fixture
def project(tmp_path: Path) -> Path:
    directory = tmp_path / "project"
    directory.mkdir()
    (directory / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    return directory


def environment_of(machine: FakeMachine, project: Path, version: str = "3.11") -> Environment:
    """`.venv` of a machine where making one makes what the set-up looks at."""

    def make(_command: Sequence[str]) -> Finished:
        program(project / ".venv" / "bin" / "python")
        (project / ".venv" / "bin" / "activate").write_text(f"VIRTUAL_ENV='{project / '.venv'}'")
        (project / ".venv" / "pyvenv.cfg").write_text(f"version = {version}.2\n")
        return Finished(0)

    machine.rules.append((f"-m venv {project}", make))
    machine.rules.append(("uv venv", make))
    return Environment(machine, SystemPackages(machine), project, Interpreter(Path("/usr/bin/python3"), version))


def test_a_fresh_clone_gets_an_environment_with_the_dev_group(tmp_path: Path, project: Path) -> None:
    machine = machine_of(tmp_path)
    environment_of(machine, project).prepare()
    assert machine.ran(f"/usr/bin/python3 -m venv {project}/.venv") == 1
    assert machine.ran("install --upgrade pip>=25.1") == 1
    assert machine.ran("install -e .[agents] --group dev") == 1
    assert Stamp("3.11", project).state() is State.READY


def test_a_second_call_runs_no_command_at_all(tmp_path: Path, project: Path) -> None:
    environment_of(machine_of(tmp_path), project).prepare()
    again = machine_of(tmp_path)
    os.utime(project / "pyproject.toml", (0, 0))
    environment_of(again, project).prepare()
    assert again.commands == []


def test_a_changed_pyproject_installs_again_and_keeps_the_environment(tmp_path: Path, project: Path) -> None:
    environment_of(machine_of(tmp_path), project).prepare()
    (project / "pyproject.toml").write_text("[project]\nname = 'y'\n")
    again = machine_of(tmp_path)
    environment_of(again, project).prepare()
    assert again.ran("install -e .[agents] --group dev") == 1
    assert again.ran("-m venv") == 0
    assert Stamp("3.11", project).state() is State.READY


def test_an_environment_that_was_cut_off_is_made_anew(tmp_path: Path, project: Path) -> None:
    environment_of(machine_of(tmp_path), project).prepare()
    (project / ".venv" / ".bootstrap").write_text(BUILDING)
    left_over = program(project / ".venv" / "half-installed")
    again = machine_of(tmp_path)
    environment_of(again, project).prepare()
    assert again.ran("-m venv") == 1
    assert not left_over.exists()


def test_the_stamp_says_building_while_pip_works(tmp_path: Path, project: Path) -> None:
    machine = machine_of(tmp_path)
    seen: list[str] = []

    def install(_command: Sequence[str]) -> Finished:
        seen.append((project / ".venv" / ".bootstrap").read_text())
        return Finished(0)

    machine.rules.append(("install -e .", install))
    environment_of(machine, project).prepare()
    assert seen == [BUILDING]


def test_a_moved_project_is_made_anew(tmp_path: Path, project: Path) -> None:
    environment_of(machine_of(tmp_path), project).prepare()
    moved = project.rename(tmp_path / "moved")
    assert Stamp("3.11", moved).state() is State.BROKEN
    Stamp("3.11", moved).clear()
    assert Stamp("3.11", moved).state() is State.BROKEN


def test_another_python_is_made_anew(tmp_path: Path, project: Path) -> None:
    environment_of(machine_of(tmp_path), project).prepare()
    assert Stamp("3.12", project).state() is State.BROKEN
    Stamp("3.11", project).clear()
    assert Stamp("3.12", project).state() is State.BROKEN
    assert Stamp("3.11", project).state() is State.STALE


def test_an_environment_whose_python_is_gone_is_made_anew(tmp_path: Path, project: Path) -> None:
    environment_of(machine_of(tmp_path), project).prepare()
    python = project / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to(tmp_path / "uninstalled")
    assert Stamp("3.11", project).state() is State.BROKEN


def test_an_environment_made_by_hand_is_kept(tmp_path: Path, project: Path) -> None:
    environment_of(machine_of(tmp_path), project).prepare()
    Stamp("3.11", project).clear()
    again = machine_of(tmp_path)
    environment_of(again, project).prepare()
    assert again.ran("-m venv") == 0
    assert Stamp("3.11", project).state() is State.READY


def test_an_environment_that_cannot_run_pip_is_made_anew(tmp_path: Path, project: Path) -> None:
    environment_of(machine_of(tmp_path), project).prepare()
    Stamp("3.11", project).clear()
    again = machine_of(tmp_path)
    again.on("--no-input --version", FAILED)
    environment_of(again, project).prepare()
    assert again.ran("-m venv") == 1


def test_what_pip_said_is_shown_and_nothing_is_called_ready(
    tmp_path: Path, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = machine_of(tmp_path)
    machine.on("install -e .", Finished(1, "ERROR: no matching distribution"))
    with pytest.raises(SetupError, match="pip could not install"):
        environment_of(machine, project).prepare()
    assert "ERROR: no matching distribution" in capsys.readouterr().out
    assert Stamp("3.11", project).state() is State.STALE


def test_uv_is_used_where_it_is(tmp_path: Path, project: Path) -> None:
    machine = machine_of(tmp_path)
    machine.programs["uv"] = Path("/bin/uv")
    environment_of(machine, project).prepare()
    python = project / ".venv" / "bin" / "python"
    assert machine.ran(f"/bin/uv pip install --python {python} -e .[agents] --group dev") == 1
    assert machine.ran("-m pip") == 0
    assert machine.ran("ensurepip") == 0


def test_pip_takes_over_where_uv_fails(tmp_path: Path, project: Path) -> None:
    machine = machine_of(tmp_path)
    machine.programs["uv"] = Path("/bin/uv")
    machine.on("uv pip", FAILED)
    environment_of(machine, project).prepare()
    assert machine.ran("-m pip --disable-pip-version-check --no-input install -e .[agents] --group dev") == 1


def test_root_on_debian_gets_the_venv_package_of_its_python(tmp_path: Path, project: Path) -> None:
    machine = with_apt(machine_of(tmp_path))
    machine.on("import ensurepip", FAILED, Finished(0))
    environment_of(machine, project, "3.13").prepare()
    assert machine.ran("install -y --no-install-recommends python3.13-venv") == 1
    assert machine.ran("install -y --no-install-recommends python3-venv") == 0
    assert machine.ran("apt-get -qq") == machine.ran(" update") + 1
    assert not machine.ran("sudo")


def test_without_root_a_sudo_that_asks_nothing_is_used(tmp_path: Path, project: Path) -> None:
    machine = with_apt(machine_of(tmp_path, is_root=False))
    machine.programs["sudo"] = Path("/usr/bin/sudo")
    machine.on("import ensurepip", FAILED, Finished(0))
    environment_of(machine, project).prepare()
    assert machine.ran("sudo -n env DEBIAN_FRONTEND=noninteractive apt-get") == 2


@pytest.mark.parametrize("has_sudo", [True, False])
def test_without_root_one_line_says_what_to_install(tmp_path: Path, project: Path, *, has_sudo: bool) -> None:
    machine = with_apt(machine_of(tmp_path, is_root=False))
    if has_sudo:
        machine.programs["sudo"] = Path("/usr/bin/sudo")
    machine.on("sudo -n true", FAILED)
    machine.on("import ensurepip", FAILED)
    line = "run as root: apt-get install python3.11-venv libatomic1 chromium-headless-shell"
    with pytest.raises(SetupError) as raised:
        environment_of(machine, project).prepare()
    assert str(raised.value) == line
    assert not machine.ran("apt-get -qq")
    assert not (project / ".venv").exists()


@pytest.mark.parametrize(
    ("distribution", "library", "browser", "more"),
    [
        ("debian", True, False, " chromium-headless-shell"),
        ("debian", False, True, " libatomic1"),
        ("debian", True, True, ""),
        ("ubuntu", False, False, " libatomic1"),
    ],
)
def test_the_line_names_only_what_is_missing(
    tmp_path: Path, project: Path, distribution: str, *, library: bool, browser: bool, more: str
) -> None:
    machine = with_apt(machine_of(tmp_path, distribution, is_root=False, libraries=(tmp_path / "lib",)))
    if library:
        program(tmp_path / "lib" / "x86_64-linux-gnu" / "libatomic.so.1")
    if browser:
        machine.programs["chromium"] = program(tmp_path / "chromium")
    machine.on("import ensurepip", FAILED)
    with pytest.raises(SetupError) as raised:
        environment_of(machine, project).prepare()
    assert str(raised.value) == f"run as root: apt-get install python3.11-venv{more}"


def test_root_is_told_only_of_what_could_not_be_installed(tmp_path: Path, project: Path) -> None:
    machine = with_apt(machine_of(tmp_path))
    machine.on("import ensurepip", FAILED)
    with pytest.raises(SetupError, match=r"^run as root: apt-get install python3\.11-venv$"):
        environment_of(machine, project).prepare()


def test_the_second_package_is_tried_and_the_lists_are_fetched_once(tmp_path: Path) -> None:
    machine = with_apt(machine_of(tmp_path))
    machine.on("python3.14-venv", FAILED)
    packages = SystemPackages(machine)
    assert packages.install("python3.14-venv", "python3-venv")
    assert packages.install("chromium")
    assert machine.ran(" update") == 1
    assert machine.ran(" python3-venv") == 1


def missing_library() -> Finished:
    return Finished(127, "node: error while loading shared libraries: libatomic.so.1: cannot open shared object file")


def test_a_driver_that_lacks_its_library_gets_it(tmp_path: Path) -> None:
    machine = with_apt(machine_of(tmp_path))
    machine.on("-m playwright --version", missing_library(), Finished(0))
    prepare_driver(machine, SystemPackages(machine), tmp_path / "bin" / "python")
    assert machine.ran("install -y --no-install-recommends libatomic1") == 1


def test_without_root_the_missing_library_is_named(tmp_path: Path, project: Path) -> None:
    machine = with_apt(machine_of(tmp_path, is_root=False))
    machine.on("-m playwright --version", missing_library())
    with pytest.raises(SetupError, match=r"^run as root: apt-get install libatomic1 chromium-headless-shell$"):
        environment_of(machine, project).prepare()
    assert Stamp("3.11", project).state() is State.STALE


def test_a_driver_broken_otherwise_installs_nothing(tmp_path: Path) -> None:
    machine = with_apt(machine_of(tmp_path))
    machine.on("-m playwright --version", Finished(1, "Exec format error"))
    with pytest.raises(SetupError, match="Exec format error"):
        prepare_driver(machine, SystemPackages(machine), Path("python"))
    assert not machine.ran("apt-get")
