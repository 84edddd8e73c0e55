"""What is wrong with `[tool.harness]`, in the words of its file. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel

from harness.spec.problems import did_you_mean

SAID = {"tuple_type": 'must be a list, as in ["..."]'}
"""By the type of pydantic's error, what TOML calls it."""


def problem(file: Path, model: type[BaseModel], found: Any) -> str:
    """One line for an error of pydantic's: file, key, what is expected and what was found."""
    *way, name = found["loc"] or ("",)
    if found["type"] == "missing":
        return f"{file}: {'.'.join(['tool', 'harness', *map(str, way)])}: the key `{name}` is missing"
    if found["type"] == "extra_forbidden":
        place = ".".join(["tool", "harness", *map(str, way)])
        meant = did_you_mean(str(name), _known(model, way))
        return f"{file}: {place}: unknown key `{name}`{f' ({meant})' if meant else ''}"
    path = ".".join(["tool", "harness", *map(str, found["loc"])]).replace("harness.defaults.0", "harness.defaults")
    unsaid = ("browser_endpoint",), ("defaults",)  # the one may be secret, the other names the key itself
    told = "" if found["loc"][:1] in unsaid else f" (found: {found['input']!r:.80})"
    return f"{file}: {path}: {SAID.get(found['type'], found['msg'].removeprefix('Value error, '))}{told}"


def _known(model: Any, way: Sequence[str | int]) -> Iterator[str]:
    """The keys of the table at the end of a way through the settings; `root` is no key of the file."""
    for name in way:
        field = getattr(model, "model_fields", {}).get(name)
        model = field.annotation if field is not None else (get_args(model) or (None,))[-1]
    return (name for name in getattr(model, "model_fields", {}) if name != "root")
