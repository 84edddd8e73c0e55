"""The scripts that faults put into pages: texts of the files in `scripts/`, made ready for one fault."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

TOLD_BY = "__harness_met"
"""The function by which a script says that it has had an effect; it exists only where a fault was laid."""
_SAME = {"late": "missing"}
_FOLDER = Path(__file__).parent / "scripts"


@cache
def _source(name: str) -> str:
    return (_FOLDER / f"{name}.js").read_text("utf-8")


def laying(kind: str, number: str, settings: Mapping[str, Any]) -> str:
    """What lays a fault of this kind on a document, once; `number` tells it from the others of its task."""
    watch, lay, make = (_source(name) for name in ("watch", "lay", _SAME.get(kind, kind)))
    given = f"{json.dumps(number)}, {json.dumps(settings)}"
    return f"(() => {{\nconst watch = ({watch});\n({lay})(({make}), {given});\n}})()"


def lifting(number: str) -> str:
    """What undoes that on a document."""
    return f"({_source('lift')})({json.dumps(number)})"
