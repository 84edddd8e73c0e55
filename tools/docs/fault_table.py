"""Generates the table of all kinds of faults in docs/faults.md from the models.

Run as `python -m tools.docs.fault_table docs/faults.md`, in the folder of the project.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel

from harness.spec.faults import FaultBase, ModelFault, RequestFault, StepFault, ToolFault
from harness.spec.validation import FAULTS

BEGIN, END = "<!-- kinds: begin (generated) -->", "<!-- kinds: end -->"
_OCCASIONS = (
    (RequestFault, "requests"),
    (ModelFault, "requests to models"),
    (ToolFault, "calls of tools"),
    (BaseModel, "steps"),
)
_HEAD = "| kind | what goes wrong | its own keys | strikes |\n|---|---|---|---|"


def rendered() -> str:
    """The table as Markdown: a line for each kind, in the order of the models."""
    return "\n".join([_HEAD, *(_row(kind, model) for kind, model in FAULTS.items())])


def _row(kind: str, model: type[BaseModel]) -> str:
    what = (model.__doc__ or "").strip().splitlines()[0]
    strikes = next(word for kind_of, word in _OCCASIONS if issubclass(model, kind_of))
    return f"| `{kind}` | {what} | {', '.join(_keys(model))} | {strikes} |".replace("|  |", "| |")


def _keys(model: type[BaseModel]) -> Iterator[str]:
    """The keys that not every fault has; required ones in bold."""
    shared = {*FaultBase.model_fields, *StepFault.model_fields}
    for name, info in model.model_fields.items():
        if name not in shared:
            yield f"**`{name}`**" if info.is_required() else f"`{name}`"


def updated(document: str) -> str:
    """The document with the table between its marks. Raises ValueError if it has no marks."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the document has no lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{rendered()}\n\n{END}{after}"


if __name__ == "__main__":
    _path = Path(sys.argv[1])
    _path.write_text(updated(_path.read_text("utf-8")), "utf-8")
