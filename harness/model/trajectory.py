"""The way that an agent took through a task, as values: the lines of trajectory.jsonl, and what is noted for them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import Struct

from harness.model.inference import ModelCall

# What is noted while a task runs (`harness/runner/proposal_notes.py`).


class SeenByAgent(Struct, frozen=True):
    """A look at the page."""

    agent: str
    step: int
    at: datetime
    url: str
    aria: str


class SaidByModel(Struct, frozen=True):
    """An answer of a model, or the failure of all that were asked."""

    agent: str
    step: int
    at: datetime
    model: str
    tool: str = ""
    arguments: dict[str, Any] = {}
    text: str = ""
    code: str = ""


Noted = SeenByAgent | SaidByModel


class TrajectoryTask(Struct, frozen=True, kw_only=True, tag="task", tag_field="line"):
    """The task, and how it ended."""

    task_id: str
    key: str
    source: str
    """The task's file, as shown to people."""
    agent: str
    """The name of its first agent; `scripted` for the steps of the file."""
    run: str
    trial: int
    passed: bool
    """Whether it ended as its file declares."""
    final_state: str
    code: str | None
    seconds: float


class SeenPage(Struct, frozen=True, kw_only=True):
    """A page that an agent saw."""

    at: datetime
    url: str
    sha256: str
    """The hash of the snapshot's file, in hexadecimal digits."""
    file: str
    """The snapshot, relative to the folder of the trajectory."""


class SaidAnswer(Struct, frozen=True, kw_only=True):
    """What a model answered: the tool that it called, and the text beside it."""

    at: datetime
    model: str
    """The name in the settings; after a fallback it is the one that answered."""
    tool: str = ""
    arguments: dict[str, Any] = {}
    text: str = ""
    code: str = ""
    """The code of the failure, if no model answered."""


class TrajectoryChoice(Struct, frozen=True, kw_only=True, tag="choice", tag_field="line"):
    """A choice of an agent that led to no step: it was done, it gave up, or it failed."""

    index: int
    agent: str
    at: datetime
    seen: tuple[SeenPage, ...] = ()
    asked: tuple[ModelCall, ...] = ()
    said: tuple[SaidAnswer, ...] = ()
    code: str | None = None
    """The code of the failure; None: the agent was done."""


class TrajectoryStep(Struct, frozen=True, kw_only=True, tag="step", tag_field="line"):
    """A step that an agent chose, what it asked for the choice, and what became of it."""

    index: int
    agent: str
    at: datetime
    seconds: float
    step: dict[str, Any]
    """As a task file has it, with lasting selectors where they are known."""
    lasting: bool
    """Whether the step can be done again: it has no ref, which holds only for one view of a page."""
    passed: bool
    seen_writing: bool = False
    """Whether it was seen to send a request that writes, although the step does not say so."""
    code: str | None
    message: str = ""
    """The message of its failure."""
    answer: str = ""
    """What the tool answered that the step called, as JSON."""
    seen: tuple[SeenPage, ...] = ()
    """The looks at the page that led to the step."""
    asked: tuple[ModelCall, ...] = ()
    """The requests to models that led to the step."""
    said: tuple[SaidAnswer, ...] = ()
    """The answers of models that led to the step."""


TrajectoryLine = TrajectoryTask | TrajectoryStep | TrajectoryChoice
