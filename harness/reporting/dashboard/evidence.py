"""The artifacts of failed tasks: found, checked, and linked from the page's folder. Their content is not trusted."""

from __future__ import annotations

from collections.abc import Iterator, Set
from itertools import islice
from os.path import relpath
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct, field
from pydantic import ValidationError

from harness.model.report import ErrorReport
from harness.reporting.comparisons import PNG, compared_pictures, data_url, shows_nothing
from harness.reporting.dashboard.view import (
    Dashboard,
    EvidenceLinks,
    Occurrence,
    PageLink,
    PictureComparison,
    PictureView,
)
from harness.reporting.files import MANIFEST, NAMES, is_inside, read_json, read_regular, safe_name
from harness.reporting.redact_files import is_inert
from harness.reporting.task_record import TaskRecord
from harness.spec.pictures import COMPARISONS

# The screenshots of failures, in the page itself: they are visible without another click.

_PICTURE = "screenshot.png"
IN_FULL = 12
"""The number of failures of a cause that are shown with all that is known of them; others are listed."""
EACH, ALL = 250_000, 900_000
"""The largest size of one picture and of all together, in bytes: the page must open at once, also on a phone."""


def with_pictures(view: Dashboard, root: Path) -> Dashboard:
    """The view with pictures while there is room: of each cause's first failure, then of the others.

    `root`: the evidence folders' parent. A picture on which nothing is to be seen is left out.
    """
    room, filled = ALL, dict[tuple[int, int], Occurrence]()
    every = [(place, number) for number, cause in enumerate(view.causes) for place in range(len(cause.occurrences))]
    for place, number in sorted(each for each in every if each[0] < IN_FULL):
        one = view.causes[number].occurrences[place]
        folder = root / one.evidence.folder
        has_picture = one.evidence.folder and _PICTURE in (link.label for link in one.evidence.links)
        picture = _read(folder, _PICTURE, min(EACH, room)) if has_picture else ""
        room -= len(picture)
        comparisons = []
        for each in one.evidence.comparisons if place == 0 else ():
            comparisons.append(_with_data(each, folder, room))
            room -= sum(len(one.data) for one in comparisons[-1].pictures)
        changed = {"picture": picture, "comparisons": tuple(comparisons) or one.evidence.comparisons}
        filled[number, place] = one.model_copy(update={"evidence": one.evidence.model_copy(update=changed)})
    causes = (
        cause.model_copy(
            update={"occurrences": tuple(filled.get((number, k), one) for k, one in enumerate(cause.occurrences))}
        )
        for number, cause in enumerate(view.causes)
    )
    return view.model_copy(update={"causes": tuple(causes)})


def _with_data(comparison: PictureComparison, folder: Path, room: int) -> PictureComparison:
    """The comparison with all of its pictures, or with none if there is no room for them."""
    place = f"files/{COMPARISONS}/{comparison.name}"
    found = [_read(folder, f"{place}/{each.name}.png", min(EACH, room)) for each in comparison.pictures]
    if not all(found) or sum(map(len, found)) > room:
        return comparison
    pairs = zip(comparison.pictures, found, strict=True)
    return comparison.model_copy(update={"pictures": tuple(each.model_copy(update={"data": d}) for each, d in pairs)})


def _read(folder: Path, name: str, limit: int) -> str:
    """A picture as a `data:` URL; empty if it is no PNG, larger than `limit` bytes, or not in the folder."""
    path = folder / name
    try:
        if not is_inside(folder, path) or path.stat().st_size > limit:
            return ""
        data = read_regular(path)
    except OSError:
        return ""
    return data_url(data) if data.startswith(PNG) and not shows_nothing(data) else ""


_REPORT = "error_report.json"
_SNAPSHOT = "dom_snapshot.html"
_REPORT_LIMIT = 4_000_000
_OTHERS = 20
_INERT = frozenset({".png", ".jpg", ".json", ".jsonl", ".txt", ".log", ".zip", ".har", ".md", ".csv", ".webm"})
"""File types that may be linked: opening such a file runs nothing, whoever put it there."""


class FoundEvidence(Struct, frozen=True):
    """The evidence of one failure."""

    evidence: EvidenceLinks = field(default_factory=EvidenceLinks)
    report: ErrorReport | None = None


class Shelf(Struct, frozen=True):
    """The places of a run's artifacts and of the page."""

    root: Path
    """The project's folder."""
    artifacts: Path
    page: Path
    """The folder of the page."""
    runs: Set[str]
    """The run, and those it was merged from: folders of other runs do not belong to it."""

    def find(self, record: TaskRecord) -> FoundEvidence:
        """Find the evidence of a task. It never raises: missing, foreign or broken files are reported in the result."""
        if record.artifacts is None:
            return FoundEvidence(EvidenceLinks(problem="No artifacts of it are kept."))
        problems: list[str] = []
        for folder in filter(_is_folder, dict.fromkeys(self._places(record))):
            if problem := self._foreign(folder, record):
                problems.append(problem)
                continue
            report, broken = _report(folder)
            links = EvidenceLinks(
                folder=relpath(folder, self.root),
                links=tuple(links_of(folder, self.page)),
                problem=broken or _alive(folder),
                comparisons=tuple(self._comparisons(folder)),
            )
            return FoundEvidence(links, report)
        gone = f"{self._shown_name(record.artifacts)} is gone: it was removed, or not copied with the history."
        return FoundEvidence(EvidenceLinks(problem=problems[0] if problems else gone))

    def _places(self, record: TaskRecord) -> Iterator[Path]:
        """Where it was written, and where a later run may have moved it."""
        yield self.root / str(record.artifacts)
        try:
            key = safe_name(record.key)
        except ValueError:
            return
        yield self.artifacts / key
        yield from (self.artifacts / ".previous" / run / key for run in sorted(self.runs) if _is_name(run))

    def _foreign(self, folder: Path, record: TaskRecord) -> str:
        """The reason why a folder does not belong to the record; empty if it does."""
        if not (is_inside(self.root, folder) or is_inside(self.artifacts, folder)):
            return f"{self._shown_name(record.artifacts)} is outside the project and is left out."
        try:
            manifest = read_json(folder / MANIFEST)
            run, task_id = str(manifest["run"]), str(manifest["task_id"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return f"{relpath(folder, self.root)} has no readable {MANIFEST} and is left out."
        if run not in self.runs or task_id != record.task_id:
            return f"{relpath(folder, self.root)} belongs to another run ({run}, {task_id}) and is left out."
        return ""

    def _comparisons(self, folder: Path) -> Iterator[PictureComparison]:
        """The screenshots that differ from their baselines, with links to their pictures."""
        for each in islice(compared_pictures(folder), _OTHERS):
            files = {name.removesuffix(".png"): file for name, file in each.files.items() if _is_file(folder, file)}
            links = (PictureView(name=name, link=_link(name, file, self.page)) for name, file in files.items())
            yield PictureComparison(name=each.name, pictures=tuple(links))

    def _shown_name(self, artifacts: str | None) -> str:
        path = Path(str(artifacts))
        return relpath(path, self.root) if path.is_absolute() else str(path)


def links_of(folder: Path, page: Path) -> Iterator[PageLink]:
    """The files of a failure that exist and are not empty, the usual ones first. `page`: the folder of the page."""
    there = {path.name: path for path in folder.iterdir() if _is_file(folder, path)}
    if _alive(folder):
        there.pop(_SNAPSHOT, None)
    usual = [name for name in NAMES if name in there]
    others = sorted(name for name in there.keys() - usual if Path(name).suffix in _INERT)[:_OTHERS]
    for name in (*usual, *others):
        yield _link(name, there[name], page)


def _link(label: str, path: Path, page: Path) -> PageLink:
    return PageLink(label=label, href=quote(Path(relpath(path, page)).as_posix(), safe="/"))


def _report(folder: Path) -> tuple[ErrorReport | None, str]:
    """The report, or the reason why there is none."""
    path = folder / _REPORT
    try:
        if path.stat().st_size > _REPORT_LIMIT or not is_inside(folder, path):
            return None, f"{_REPORT} is too large and was not read."
        return ErrorReport.model_validate_json(read_regular(path)), ""
    except (OSError, ValidationError):
        return None, f"{_REPORT} is missing or broken, so the page shows only what the history has."


def _alive(folder: Path) -> str:
    """The reason why the snapshot of a page is not linked: opening it must run nothing, whoever put it there."""
    path = folder / _SNAPSHOT
    try:
        dead = not _is_file(folder, path) or is_inert(path)
    except OSError:
        dead = False
    return "" if dead else f"{_SNAPSHOT} was not made safe to open and is left out."


def _is_file(folder: Path, path: Path) -> bool:
    try:
        return path.is_file() and path.stat().st_size > 0 and is_inside(folder, path)
    except OSError:
        return False


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # the name contains a NUL, or is too long
        return False


def _is_name(text: str) -> bool:
    try:
        return bool(safe_name(text))
    except ValueError:
        return False
