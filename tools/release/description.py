"""The description that a package index shows: the README, whose links and picture lead to the version's own files.

Hatchling runs the hook (`tool.hatch.metadata.hooks.custom` in pyproject.toml). An index serves no file beside the
description, so a relative link would lead nowhere. `[project.urls]` names the repository as `Source`; while it names
none, links are their text, and there is no picture. From an index, the package is installed by its name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

CLONE = "/path/to/this/clone"
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:|#)([^)\s]+)\)")
_PICTURE = re.compile(r'<picture>.*?<img alt="([^"]*)" src="([^"]*)">.*?</picture>\n?', re.DOTALL)


def described(readme: str, metadata: Mapping[str, Any]) -> str:
    """The README for an index. The repository is on GitHub, on GitLab, or on what has addresses like theirs."""
    readme = readme.replace(CLONE, metadata["name"])
    source: str | None = metadata.get("urls", {}).get("Source")
    if source is None:
        return re.sub(r"\n{3,}", "\n\n", _LINK.sub(r"\1", _PICTURE.sub("", readme)))
    place, tag = source.rstrip("/").removesuffix(".git"), f"v{metadata['version']}"
    pictured = _PICTURE.sub(rf"![\1]({place}/raw/{tag}/\2)\n", readme)
    return _LINK.sub(rf"[\1]({place}/blob/{tag}/\2)", pictured)


class Description(MetadataHookInterface):
    """Sets `readme` in the metadata."""

    def update(self, metadata: dict[str, Any]) -> None:
        readme = Path(self.root, "README.md").read_text("utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": described(readme, metadata)}
