"""A machine that exists only in memory, for the tests of the set-up."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from bootstrap.machine import Facts, Finished

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FAILED = Finished(1, "Error: no such package\n    at somewhere")


@dataclass
class FakeMachine:
    """Programs are names; commands are recorded, and answered by the first rule whose words they contain."""

    facts: Facts
    programs: dict[str, Path] = field(default_factory=dict)
    rules: list[tuple[str, Callable[[Sequence[str]], Finished]]] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    limits: dict[str, float | None] = field(default_factory=dict)

    def which(self, name: str) -> Path | None:
        return self.programs.get(name)

    def run(self, command: Sequence[str], *, seconds: float | None = None) -> Finished:
        line = " ".join(command)
        self.commands.append(line)
        self.limits[line] = seconds
        return next((answer(command) for words, answer in self.rules if words in line), Finished(0))

    def on(self, words: str, *answers: Finished) -> None:
        """Answer with each of `answers` in turn, the last one for ever."""
        left = list(answers)
        self.rules.append((words, lambda _command: left.pop(0) if len(left) > 1 else left[0]))

    def ran(self, words: str) -> int:
        return sum(words in line for line in self.commands)


def machine_of(tmp_path: Path, distribution: str = "debian", **changes: object) -> FakeMachine:
    values: dict[str, object] = {
        "system": "Linux",
        "distribution": distribution,
        "is_root": True,
        "home": tmp_path / "home",
        "environ": {},
    }
    return FakeMachine(Facts(**{**values, **changes}))  # type: ignore[arg-type]


def program(path: Path, content: str = "\x7fELF") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    path.chmod(0o755)
    return path


def with_apt(machine: FakeMachine) -> FakeMachine:
    machine.programs["apt-get"] = Path("/usr/bin/apt-get")
    return machine
