"""The fence around the outputs of a run: one that fails is named once, and neither the run nor a verdict notices.

Everything that a run writes or tells beside its verdicts is called through here: the sinks of the stream, the history,
Allure, the files of figures, the evidence. So a full disk, a locked database or an error in a plugin costs that output
alone, and the end of the run says what is lost.
"""

from __future__ import annotations

import errno
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar

T = TypeVar("T")
_LONGEST: Final = 300
"""Characters of the text of an error that are shown."""
_STOPS: Final = (KeyboardInterrupt, SystemExit)
"""What a person or the system means for the whole run."""

LOST: Final[Mapping[str, str]] = {
    "stream": "events of this run are missing everywhere",
    "events.jsonl": "the events of this run are incomplete (.harness/events)",
    "logging": "log records of this run are missing",
    "OpenTelemetry": "spans of this run are missing",
    "journal of the cluster": "what a slot had begun is not known if it dies",
    "journal of the worker": "what a worker had begun is not known if it dies",
    "ledger of the store": "the store does not know all tasks that were seen to write",
    "hook pytest_taskspec_event": "plugins were not told of all events",
    "Allure": "the Allure results of this run are incomplete",
    "story": "reports of a task say no more than its code",
    "terminal": "lines on the terminal are missing",
    "live line": "the live line is missing",
    "metrics": "the figures of this run are incomplete (.harness/metrics.json)",
    "task record": "the summary, the history and the figures do not know the end of a task",
    "history": "the history of this run is incomplete",
    "store": "the store does not have everything of this run",
    "evidence": "evidence of a task is missing",
    "live view": "the run cannot be watched",
    "last run": "`harness show` and `harness triage` do not know this run",
    "job summary": "the page of this run in the CI system is missing",
    "summary": "lines of this summary are missing",
}
"""Output -> what is lost when it fails."""
_UNKNOWN: Final = "what it tells of this run is incomplete"


class OutputFence:
    """The outputs that failed in one process. Several threads may use it."""

    def __init__(self) -> None:
        self.problems: dict[str, str] = {}
        """Output -> its first error."""
        self._unsaid: list[str] = []

    def note(self, output: str, problem: str) -> None:
        """Keep the first problem of an output, which may come from another process."""
        if output not in self.problems:
            self.problems[output] = problem
            self._unsaid.append(output)

    def unsaid(self) -> list[str]:
        """The lines about what has failed since this was last called."""
        said, self._unsaid = self._unsaid, []
        return [self._line(output) for output in said]

    def lines(self) -> list[str]:
        """A line for each output that failed."""
        return [self._line(output) for output in self.problems]

    def summed_up(self) -> list[str]:
        """The lines of the end of a run: what was said before is only named."""
        before = [output for output in self.problems if output not in self._unsaid]
        return [*self.unsaid(), *([f"outputs that failed, as said above: {', '.join(before)}"] if before else [])]

    def _line(self, output: str) -> str:
        return f"output failed: {output}: {self.problems[output]}; {LOST.get(output, _UNKNOWN)}"

    @contextmanager
    def around(self, output: str) -> Iterator[None]:
        """Call an output within: whatever it raises ends here, except what is meant for the whole run."""
        try:
            yield
        except _STOPS:
            raise
        except BaseException as error:  # noqa: BLE001 - a disk, a plugin, an exporter must fail no task: the one place
            self.note(output, f"{type(error).__name__}: {_text(error)}")

    def call(self, output: str, act: Callable[..., T], *args: Any) -> T | None:
        """The answer of an output, or None if it failed."""
        with self.around(output):
            return act(*args)
        return None

    def enclose(self, output: str, plugin: T) -> T:
        """The plugin, each of whose public methods is called within the fence from now on, pytest's hooks too."""
        for name, method in inspect.getmembers(plugin, inspect.ismethod):
            if not name.startswith("_") and not inspect.isgeneratorfunction(method):
                setattr(plugin, name, self._fenced(output, method))
        return plugin

    def _fenced(self, output: str, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)  # pytest finds the marks of a hook and its parameters
        def called(*args: Any, **named: Any) -> Any:
            return self.call(output, functools.partial(method, *args, **named))

        return called


_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_CLOSED: Final = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EISDIR, errno.ENOTDIR, errno.EEXIST)


def _text(error: BaseException) -> str:
    """The text of an error in one line, and what mends it; one whose text cannot be made has none."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 - foreign code
        return ""
    text = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    number = error.errno if isinstance(error, OSError) else None
    if number in _FULL:
        return f"{text}; free space on the disk"
    return f"{text}; make the folder writable" if number in _CLOSED else text
