"""What a plain `pip install` of the wheel brings: the distributions that it requires, without extras."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import Distribution, distribution, packages_distributions
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def built(folder: Path, kind: str = "wheel") -> Path:
    """The wheel, or the sdist, of this project, built without the internet into a folder."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (found,) = folder.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return found


def _key(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def runtime_distributions() -> dict[str, Distribution]:
    """Name -> each distribution that the project's `dependencies` bring, as it is installed here."""
    found: dict[str, Distribution] = {}
    asked: set[tuple[str, str]] = set()
    waiting = [Requirement(each) for each in PROJECT["dependencies"]]
    while waiting:
        wanted = waiting.pop()
        name = _key(wanted.name)
        found[name] = distribution(name)
        for extra in {"", *wanted.extras} - {each for other, each in asked if other == name}:
            asked.add((name, extra))
            for each in map(Requirement, found[name].requires or ()):
                if each.marker is None or each.marker.evaluate({"extra": extra}):
                    each.marker = None
                    waiting.append(each)
    return found


def runtime_modules() -> frozenset[str]:
    """The top-level modules of these distributions."""
    names = runtime_distributions().keys()
    return frozenset(
        module for module, owners in packages_distributions().items() if names & {_key(each) for each in owners}
    )
