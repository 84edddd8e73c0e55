"""The virtual environment in `.venv` with the project and its development tools, made or brought up to date."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bootstrap.driver import prepare_driver
from bootstrap.machine import SetupError, say
from bootstrap.missing import apt_advice
from bootstrap.stamp import Stamp, State

if TYPE_CHECKING:
    from pathlib import Path

    from bootstrap.machine import Machine
    from bootstrap.packages import SystemPackages

PROJECT = ("-e", ".[agents]", "--group", "dev")
"""What is installed; the path is relative, since commands run in the project's directory."""
PIP_WITH_GROUPS = "pip>=25.1"
SHOWN = 30
"""The number of lines that are shown of an installation that failed: the last ones."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """The Python that the environment is made from."""

    path: Path
    version: str


@dataclass(frozen=True, slots=True)
class Environment:
    """`.venv` of the project."""

    machine: Machine
    packages: SystemPackages
    project: Path
    interpreter: Interpreter

    @property
    def directory(self) -> Path:
        return self.project / ".venv"

    @property
    def python(self) -> Path:
        return self.directory / "bin" / "python"

    def prepare(self) -> None:
        """Make it usable. Raises SetupError."""
        stamp = Stamp(self.interpreter.version, self.project)
        state = stamp.state()
        if state is State.READY:
            return
        say("setting up this clone, once: what it needs, in .venv, and a browser; this takes minutes")
        if state is State.BROKEN or not self._can_install():
            self._remove()
            self._create()
        stamp.building()
        try:
            self._install()
            prepare_driver(self.machine, self.packages, self.python)
        except SetupError:
            stamp.clear()
            raise
        stamp.ready()

    def _can_install(self) -> bool:
        if self._uv() is None:
            return self._pip("--version")
        return self.machine.run((str(self.python), "-c", "pass")).ok

    def _remove(self) -> None:
        if self.directory.is_symlink() or self.directory.is_file():
            self.directory.unlink()
        elif self.directory.exists():
            say("removing .venv, which is unfinished, was moved, or belongs to another Python")
            shutil.rmtree(self.directory)

    def _create(self) -> None:
        say(f"creating .venv with Python {self.interpreter.version}")
        if not self._create_with_uv():
            self._require_venv_module()
            command = (str(self.interpreter.path), "-m", "venv", str(self.directory))
            done = self.machine.run(command)
            if not done.ok:
                raise SetupError(f"cannot create .venv: {done.reason}")

    def _create_with_uv(self) -> bool:
        uv = self._uv()
        if uv is None:
            return False
        command = (str(uv), "venv", "-q", "--seed", "--python", str(self.interpreter.path), str(self.directory))
        if self.machine.run(command).ok:
            return True
        shutil.rmtree(self.directory, ignore_errors=True)
        return False

    def _require_venv_module(self) -> None:
        """Raise SetupError if Debian's separate package for `venv` is missing."""
        if self._has_venv_module():
            return
        matching = f"python{self.interpreter.version}-venv"
        self.packages.install(matching, "python3-venv")
        if self._has_venv_module():
            return
        if self.machine.which("apt-get"):
            raise SetupError(apt_advice(self.machine, self.directory, matching))
        raise SetupError(f"Python {self.interpreter.version} has no venv module; install its venv and pip packages")

    def _has_venv_module(self) -> bool:
        return self.machine.run((str(self.interpreter.path), "-c", "import ensurepip, venv")).ok

    def _install(self) -> None:
        if not self._install_with_uv():
            self._install_with_pip()

    def _install_with_uv(self) -> bool:
        uv = self._uv()
        if uv is None:
            return False
        say("installing the project with uv (the first time takes about a minute)")
        done = self.machine.run((str(uv), "pip", "install", "--python", str(self.python), *PROJECT))
        if not done.ok:
            say(f"uv could not install it ({done.reason}); trying pip")
        return done.ok

    def _install_with_pip(self) -> None:
        say("installing the project with pip (the first time takes two to seven minutes)")
        if not self._pip("install", "--upgrade", PIP_WITH_GROUPS):
            say("pip could not be upgraded")
        self._pip_or_fail("install", *PROJECT)

    def _pip(self, *arguments: str) -> bool:
        return self.machine.run(self._pip_command(*arguments)).ok

    def _pip_or_fail(self, *arguments: str) -> None:
        done = self.machine.run(self._pip_command(*arguments))
        if not done.ok:
            print(*done.output.splitlines()[-SHOWN:], sep="\n", flush=True)
            raise SetupError("pip could not install the project (see its messages above)")

    def _pip_command(self, *arguments: str) -> tuple[str, ...]:
        return (str(self.python), "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments)

    def _uv(self) -> Path | None:
        return self.machine.which("uv")
