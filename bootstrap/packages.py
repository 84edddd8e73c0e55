"""Packages of the operating system, installed with apt-get if that is possible without a password."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bootstrap.machine import say

if TYPE_CHECKING:
    from bootstrap.machine import Finished, Machine

# A server that stops answering ends the download; dpkg itself is never interrupted, which would leave it half
# configured.
BOUNDED = (
    "-o",
    "Acquire::http::Timeout=30",
    "-o",
    "Acquire::https::Timeout=30",
    "-o",
    "Acquire::Retries=2",
    "-o",
    "DPkg::Lock::Timeout=120",
)


class SystemPackages:
    """Runs apt-get as root, or through a sudo without a password."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._updated = False

    def install(self, *alternatives: str) -> bool:
        """Install the first of `alternatives` that can be installed; returns False if none can."""
        prefix = self._prefix()
        if prefix is None:
            return False
        if not self._updated:
            say("apt-get update")
            self._apt(prefix, "update")
            self._updated = True
        return any(self._install(prefix, name) for name in alternatives)

    def _install(self, prefix: tuple[str, ...], name: str) -> bool:
        say(f"apt-get install {name}")
        done = self._apt(prefix, "install", "-y", "--no-install-recommends", name)
        if not done.ok:
            say(f"apt-get install {name} failed: {done.reason}")
        return done.ok

    def _prefix(self) -> tuple[str, ...] | None:
        if self._machine.which("apt-get") is None:
            return None
        if self._machine.facts.is_root:
            return ()
        if self._machine.which("sudo") and self._machine.run(("sudo", "-n", "true"), seconds=20).ok:
            return ("sudo", "-n")
        return None

    def _apt(self, prefix: tuple[str, ...], *arguments: str) -> Finished:
        return self._machine.run(
            (*prefix, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", *BOUNDED, *arguments)
        )
