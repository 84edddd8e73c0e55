"""The documentation of all versions: a folder for each, and the list from which every page's switcher is made.

The list is a script, which a browser also loads from a folder without a server. Old pages load the same file, so they
know of newer versions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from packaging.version import Version

LIST = "versions.js"
_VARIABLE = "window.documentedVersions = "
_ENTRY = """<!doctype html>
<meta charset="utf-8">
<title>pytest-taskspec</title>
<meta http-equiv="refresh" content="0; url={newest}/index.html">
<a href="{newest}/index.html">pytest-taskspec {newest}</a>
"""


def listed(versions: Mapping[str, Sequence[str]]) -> str:
    """The script: each version with its pages, newest first."""
    newest_first = {name: versions[name] for name in sorted(versions, key=Version, reverse=True)}
    return f"{_VARIABLE}{json.dumps(newest_first, indent=1)};\n"


def index(site: Path) -> list[str]:
    """Write the list of the versions in this folder, and the page that leads to the newest; returns them in order."""
    folders = [path for path in site.iterdir() if re.match(r"\d", path.name) and (path / "index.html").exists()]
    pages = {
        folder.name: sorted(
            page.relative_to(folder).as_posix() for page in folder.rglob("*.html") if "_static" not in page.parts
        )
        for folder in folders
    }
    (site / LIST).write_text(listed(pages), "utf-8")
    order = sorted(pages, key=Version, reverse=True)
    newest = next((name for name in order if not Version(name).is_prerelease), order[0])
    (site / "index.html").write_text(_ENTRY.format(newest=newest), "utf-8")
    return order
