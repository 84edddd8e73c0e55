"""The criteria of a task file, filled in and judged by one task's evidence."""

from __future__ import annotations

from collections.abc import Mapping

from harness.compile.filling import Filling
from harness.criteria import CriterionError, parse
from harness.model.settings import Settings
from harness.recovery.failure import Failed
from harness.regrade.documents import UnusableEvidenceError
from harness.regrade.grading import Grade, grade
from harness.regrade.sources import RecordedSources, redacted_names
from harness.regrade.undecided import UndecidedError
from harness.reporting.redaction import MARK
from harness.spec.loaded import Loaded
from harness.spec.references import BadReferenceError, MissingMemory, Scope, interpolate_criterion


class Judge:
    """Judges texts of one task file."""

    def __init__(self, task: Loaded, sources: RecordedSources, environ: Mapping[str, str]) -> None:
        """Raises UnusableEvidenceError for a file whose references lead nowhere."""
        self._sources = sources
        try:
            self._filling = Filling(task.spec, Settings(), environ, task.origin)
        except BadReferenceError as error:
            raise UnusableEvidenceError(f"its file cannot be filled in: {error}") from error

    async def __call__(self, text: str) -> Grade:
        """The text as the file has it. Never raises: what cannot be told is undecided."""
        ready = self._filling.criteria(("success_criteria",), (text,))
        if not ready:
            return Grade(None, text, self._filling.problems[-1].message)
        try:
            resolved = await self._resolved(str(ready[0]))
            return await grade(parse(resolved), self._sources)
        except MissingMemory as missing:
            return Grade(False, text, f"memory has no {missing.key!r}, which it refers to")
        except (UndecidedError, BadReferenceError, CriterionError, Failed) as error:
            return Grade(None, text, str(error))

    async def _resolved(self, text: str) -> str:
        """With what memory held then. Raises UndecidedError where that is redacted."""
        if "${" not in text:
            return text
        memory = await self._sources.memory()
        try:
            resolved = interpolate_criterion(text, Scope(memory=memory))
        except MissingMemory:
            if redacted_names(dict(memory)):
                raise UndecidedError("names of memory entries are redacted in the evidence") from None
            raise
        if MARK in resolved and MARK not in text:
            raise UndecidedError("what it takes from memory is redacted in the evidence")
        return resolved
