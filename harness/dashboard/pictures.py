"""The screenshot of the first failure of each cause, in the page itself: it is seen without another click."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.dashboard.view import Cause, Dashboard, Evidence
from harness.reporting.names import inside

PICTURE = "screenshot.png"
EACH, ALL = 250_000, 900_000
"""Bytes that one may have, and all together: the page is to open at once, also from a CI artifact on a phone."""
_PNG = b"\x89PNG\r\n\x1a\n"


def with_pictures(view: Dashboard, root: Path) -> Dashboard:
    """As long as there is room for them, in the order of the causes. `root`: what folders of evidence begin at."""
    return view.model_copy(update={"causes": tuple(_filled(view.causes, root))})


def _filled(causes: Sequence[Cause], root: Path) -> Iterator[Cause]:
    room = ALL
    for cause in causes:
        first, *rest = cause.occurrences
        data = _read(root, first.evidence, min(EACH, room))
        room -= len(data)
        if not data:
            yield cause
            continue
        picture = f"data:image/png;base64,{base64.b64encode(data).decode()}"
        shown = first.model_copy(update={"evidence": first.evidence.model_copy(update={"picture": picture})})
        yield cause.model_copy(update={"occurrences": (shown, *rest)})


def _read(root: Path, evidence: Evidence, limit: int) -> bytes:
    """Nothing for what is no PNG, larger, or not in the folder."""
    if not evidence.folder or PICTURE not in (link.label for link in evidence.links):
        return b""
    folder = root / evidence.folder
    path = folder / PICTURE
    try:
        if not inside(folder, path) or path.stat().st_size > limit:
            return b""
        data = path.read_bytes()
    except OSError:
        return b""
    return data if data.startswith(_PNG) else b""
