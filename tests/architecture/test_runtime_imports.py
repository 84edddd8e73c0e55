"""What a plain install has is enough for everything but the extras: no other module imports more."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.syntax import tree
from tests.runtime import ROOT, runtime_modules

OF_EXTRAS = {
    "anthropic": "models",
    "blazediff": "engine/pixels.py",
    "faker": "spec/generated.py",
    "fsspec": "store",
    "genai_prices": "models",
    "imageio_ffmpeg": "browser/video.py",
    "mcp": "bridge/mcp_face.py demo/tools tools",
    "mcp_types": "bridge/mcp_face.py demo/tools tools",
    "openai": "models",
    "opentelemetry": "reporting/telemetry/exporters.py",
    "prometheus_client": "reporting/telemetry/exporters.py",
    "pydantic_ai": "models",
    "pypdf": "browser/contents.py",
    "pytest_rerunfailures": "pytest_plugin/cluster_child.py",
    "ray": "cluster",
    "watchfiles": "cli/watch.py",
    "websockets": "bridge/client browser/debugger.py",
    "xdist": "pytest_plugin",
}
"""A module that only an extra (or a plugin of pytest) brings -> the places that are used only with it."""


PERHAPS = re.compile(r"^ *(?:from ([\w.]+) import|import ([\w., ]+))", re.MULTILINE)
"""What may be an import, one a line, and is read in a moment; to parse all modules takes seconds."""


def perhaps_imported(file: Path) -> set[str]:
    """The top-level modules that a file imports, and more words."""
    found = (name or names for name, names in PERHAPS.findall(file.read_text("utf-8")))
    return {each.split()[0].partition(".")[0] for names in found for each in names.split(",")}


def imported(file: Path) -> Iterator[str]:
    """The top-level modules that a file imports, in its functions too."""
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Import):
            yield from (each.name.partition(".")[0] for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def test_what_no_plain_install_has_is_imported_only_where_an_extra_is_needed() -> None:
    there = {*sys.stdlib_module_names, "harness", *runtime_modules()}
    missing: set[str] = set()
    used: set[str] = set()
    for file in (file for file in (ROOT / "harness").rglob("*.py") if perhaps_imported(file) - there):
        place = file.relative_to(ROOT / "harness").as_posix()
        for module in set(imported(file)) - there:
            used.add(module)
            allowed = OF_EXTRAS.get(module, "").split()
            if not any(place == each or place.startswith(f"{each}/") for each in allowed):
                missing.add(f"{place} imports {module}")
    assert missing == set(), "add what it belongs to to the dependencies"
    assert used == set(OF_EXTRAS), "the table names what is no longer imported, or is a dependency"
