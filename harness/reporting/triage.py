"""The failures of a run by cause, for a quick look, for Markdown on a CI page, and for annotations."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct, field

from harness.criteria.syntax import FUNCTIONS
from harness.model.figures import UNJUDGED
from harness.recovery.catalog import CATALOG, Family, Scope, Suspect
from harness.reporting.comparisons import compared_pictures
from harness.reporting.files import ARTIFACTS, printable, shown_path
from harness.reporting.history.record import Execution, RunRecord
from harness.reporting.task_record import TaskRecord
from harness.reporting.words import place, service_log, site_of
from harness.spec.pictures import ACTUAL, DIFF, LOOKS_LIKE

# The evidence to open first: for each code its most informative artifact, else a command.

_BY_FUNCTION = {function: each.name for each in ARTIFACTS for function in each.functions}
_READS = re.compile(rf"\b({'|'.join(FUNCTIONS)})\(")
_OF_THE_FILE = frozenset({"INVALID_INPUT", "SPEC_INVALID"})
"""Codes of failures whose remedy is a change of the task's own file."""


def first_look(cause: Cause, exists: Callable[[Path], bool] = Path.is_file, command: str = "harness") -> str:
    """The file to look at first, or a command line. `exists` says whether an artifact exists."""
    first = next(each for each in cause.tasks if each.code == cause.code)
    code = _underlying_code(first)
    if service := cause.service if cause.service and code in _UNREACHABLE else next(iter(first.crashes), ""):
        return service_log(service, command)
    if code in _OF_THE_FILE and first.location:
        return printable(first.location)
    if file := _artifact(cause, code, exists):
        return file
    if first.artifacts and exists(Path(first.artifacts, "error_report.json")):
        return f"{command} show {shlex.quote(printable(first.task_id))}"
    return f"{command} explain {code}" if code in CATALOG else printable(first.nodeid or first.task_id)


def _artifact(cause: Cause, code: str, exists: Callable[[Path], bool]) -> str:
    """The artifact of the first task that has it, as a path for people."""
    kept = [each for each in cause.tasks if each.artifacts and _underlying_code(each) == code]
    pictures = (_picture(each) for each in kept if LOOKS_LIKE in each.message)
    places = chain(pictures, (Path(str(each.artifacts), name) for each in kept if (name := _name(each))))
    return next((printable(shown_path(place)) for place in places if exists(place)), "")


def _picture(trouble: Trouble) -> Path:
    """The picture of what differs, of the first comparison that failed; else the one that was taken."""
    files = next((each.files for each in compared_pictures(Path(str(trouble.artifacts)))), {})
    return files.get(DIFF) or files.get(ACTUAL) or Path(str(trouble.artifacts), DIFF)


def _name(trouble: Trouble) -> str:
    """The artifact for a failure: by what a failed criterion reads first, else by the catalog."""
    code = _underlying_code(trouble)
    family = CATALOG[code].family if code in CATALOG else None
    read = _READS.search(trouble.message) if family is Family.ASSERTION else None
    if read and read[1] in _BY_FUNCTION:
        return _BY_FUNCTION[read[1]]
    return CATALOG[code].first_artifact if code in CATALOG else ""


# One failed task, as far as its cause is concerned.

_WHOLE_ADDRESS = re.compile(r"(?:https?|wss?)://[^\s'\"<>`]+")
_SERVICE_NAME = re.compile(r"service `([^`]+)`")


class Trouble(Struct, frozen=True):
    """One failed task. Unknown texts are empty. `code` is empty if no failure of the task explains it."""

    task_id: str
    code: str = ""
    message: str = ""
    nodeid: str = ""
    site: str = ""
    service: str = ""
    selector: str = ""
    act: str = ""
    criterion: str = ""
    """The failed criterion, as written."""
    step_index: int | None = None
    steps_total: int = 0
    place: str = ""
    source: str = ""
    location: str = ""
    """Its file; of a failed step that is written in another one, that file and line."""
    artifacts: str = ""
    hint: str = ""
    suspect: str = ""
    new: bool = False
    """Whether it passed when it ran before."""
    crashes: dict[str, str] = field(default_factory=dict)
    """Service that crashed shortly before -> when."""
    faulted: bool = False
    """Whether an ordered fault struck it: then it never has the same cause as a failure without one."""

    @property
    def step(self) -> str:
        """The failed step as the terminal names it, `3 click`, `end assert`; empty if unknown."""
        if self.step_index is None:
            return ""
        counted = self.steps_total and not self.code.startswith("AGENT_")  # an agent has no fixed number of steps
        where = place(self.step_index, self.steps_total) if counted or self.step_index < 0 else str(self.step_index)
        return f"{self.place or where} {self.act}".strip()

    @property
    def judged(self) -> bool:
        """Whether it says something about the task: it was not cut off from outside."""
        return self.code not in UNJUDGED


def troubles(run: RunRecord, passed_before: Collection[str] = ()) -> tuple[Trouble, ...]:
    """The failed tasks of a run, in its order, without declared failures.

    `passed_before`: node ids of those that passed when they ran before.
    """
    return tuple(
        _of_execution(each, new=each.judged and each.nodeid in passed_before)
        for each in run.last
        if each.counted_as in ("failed", "not judged") and not (each.record and each.record.expected)
    )


def _of_execution(execution: Execution, *, new: bool) -> Trouble:
    if execution.record is None:
        message = execution.reason or "it failed before or after the task itself"
        hint = "A fixture or a hook failed before or after the task, so there is no evidence of a page."
        project = str(Suspect.PROJECT)
        return Trouble(execution.task_id, message=message, nodeid=execution.nodeid, hint=hint, suspect=project, new=new)
    return of_record(execution.record, execution.nodeid, new=new)


def of_record(record: TaskRecord, nodeid: str = "", *, new: bool = False) -> Trouble:
    """The facts of a failed task."""
    last = next((line for line in reversed(record.steps) if line.index == record.step_index), None)
    return Trouble(
        record.task_id,
        record.code or "",
        record.message or _without_a_failure(record),
        nodeid,
        site=record.site or next(_sites(record), ""),
        service=record.service or _service(record),
        selector=record.selector,
        act=last.act if last else "",
        criterion=last.target if last and last.act == "assert" else "",
        step_index=record.step_index,
        steps_total=record.steps_total,
        place=last.place if last else "",
        source=record.source,
        location=record.location or record.source,
        artifacts=record.artifacts or "",
        hint=record.hint,
        suspect=record.suspect,
        new=new,
        crashes=record.crashes,
        faulted="struck" in record.faults.values(),
    )


def _without_a_failure(record: TaskRecord) -> str:
    if record.known_defect:
        return f"it passed, although its `expected_failure` says that it fails: {record.known_defect}"
    if record.unexpected:
        return "it did not show the outcome that its `expect` declares"
    return f"it ended as {record.final_state}"


def _sites(record: TaskRecord) -> Iterator[str]:
    """The sites for a record that names none: addresses in its message, then those of its steps, last first."""
    told = (record.message, *(line.target for line in reversed(record.steps)))
    return filter(None, (site_of(address) for text in told for address in _WHOLE_ADDRESS.findall(text)))


def _service(record: TaskRecord) -> str:
    found = _SERVICE_NAME.search(record.message) if record.code == "SERVICE_DOWN" else None
    return found[1] if found else ""


# Failures of a run grouped by cause: the same dead site behind twelve tasks is one cause.

_UNREACHABLE = frozenset({
    "NET_CONNECTION_REFUSED", "NET_CONNECTION_RESET", "NET_EMPTY_RESPONSE", "NET_TIMEOUT", "NET_UNREACHABLE",
    "CIRCUIT_OPEN", "SERVICE_DOWN",
})  # fmt: skip
"""Codes with one cause: nothing answers there."""
_OF_THE_SITE = frozenset({"NET_DNS", "NET_TLS", "HTTP_TIMEOUT", "HTTP_RATE_LIMITED", "HTTP_UNAVAILABLE",
                         "HTTP_SERVER_ERROR"})  # fmt: skip
"""Codes whose cause is the site, whatever was requested."""
_OF_THE_MACHINE = frozenset(
    {"NET_OFFLINE", "NET_PROXY", "INTERRUPTED", "WORKER_CRASHED", "WORKER_CUT_OFF", "DRIVER_GONE"}
)
"""Codes whose cause is the machine, whatever the task."""
_LAST = re.compile(r"the last: ([A-Z_]+)")
_REACH = (Scope.RUN, Scope.DRIVER, Scope.BROWSER, Scope.ORIGIN, Scope.AGENT, Scope.WORLD)

_SERVICE = "service"

_Key = tuple[str, ...]


class Cause(Struct, frozen=True):
    """The common cause of some failures."""

    code: str
    """The most telling code; empty if there is none."""
    what: str
    """The cause in a line."""
    site: str
    service: str
    selector: str
    codes: Mapping[str, int]
    """Code -> number of tasks, the most frequent first."""
    tasks: tuple[Trouble, ...]
    """The tasks in the order of the run."""

    @property
    def count(self) -> int:
        return len(self.tasks)

    @property
    def suspect(self) -> str:
        """Where to look first: as most of its tasks say; empty if none does."""
        return next(
            (name for name, _ in Counter(task.suspect for task in self.tasks if task.suspect).most_common(1)), ""
        )

    @property
    def judged(self) -> bool:
        """Whether it says something about its tasks: not all of them were cut off from outside."""
        return any(task.judged for task in self.tasks)

    @property
    def title(self) -> str:
        """What happened; for tasks that were cut off from outside, that they are not judged."""
        return self.what if self.judged else f"not judged: {self.what}"

    @property
    def new(self) -> int:
        """The number of its tasks that passed when they ran before."""
        return sum(task.new for task in self.tasks)


def causes(troubles: Iterable[Trouble], hosts: Mapping[str, str] = MappingProxyType({})) -> tuple[Cause, ...]:
    """The causes, the one that explains most first, then the one with the widest scope; interruptions come last.

    `hosts`: host -> its service, for the services that the project declares.
    """
    found = tuple(troubles)
    down = {**hosts, **{each.site: each.service for each in found if each.service and each.site}}
    groups: dict[_Key, list[Trouble]] = {}
    for each in found:
        groups.setdefault(_key(each, down), []).append(each)
    made = (_cause(group, key[1] if key[0] == _SERVICE else "") for key, group in groups.items())
    return tuple(sorted(made, key=lambda cause: (cause.code == "INTERRUPTED", -cause.count, _reach(cause.code))))


def _underlying_code(trouble: Trouble) -> str:
    """The failure's code; for a call that an open circuit refused, the code of the failures that opened it."""
    told = _LAST.search(trouble.message) if trouble.code == "CIRCUIT_OPEN" else None
    return told[1] if told and told[1] in CATALOG else trouble.code


def _key(trouble: Trouble, down: Mapping[str, str]) -> _Key:
    """The key of a failure's cause. `down`: host -> the service behind it."""
    return (*_cause_key(trouble, down), *(["faulted"] if trouble.faulted else []))


def _cause_key(trouble: Trouble, down: Mapping[str, str]) -> _Key:
    code = _underlying_code(trouble)
    if code in _UNREACHABLE:
        service = trouble.service or down.get(trouble.site, "")
        if service or trouble.site:
            return (_SERVICE, service) if service else ("site", trouble.site)
    if code in _OF_THE_SITE and trouble.site:
        return code, trouble.site
    if code in _OF_THE_MACHINE:
        return (code,)
    what = (trouble.selector, trouble.criterion, normalised(trouble.message))
    return code, _site_of_page(code, trouble), *what, *sorted(trouble.crashes)


def _site_of_page(code: str, trouble: Trouble) -> str:
    """The site of the page: the same selector on another site has another cause."""
    return trouble.site if code in CATALOG and CATALOG[code].scope in (Scope.PAGE, Scope.ORIGIN) else ""


def _cause(group: Sequence[Trouble], service: str) -> Cause:
    codes = Counter(each.code for each in group)
    code = max(codes, key=lambda each: (each == "SERVICE_DOWN", each != "CIRCUIT_OPEN", codes[each]))
    first = next(each for each in group if each.code == code)
    return Cause(
        code,
        _describe_cause(first, code, service, alike=len({each.message for each in group}) == 1),
        first.site,
        service,
        first.selector,
        dict(codes.most_common()),
        tuple(group),
    )


def _describe_cause(first: Trouble, code: str, service: str, *, alike: bool) -> str:
    """The criterion that does not hold, or the first message; a service that crashed, or the site, is named first.

    `alike`: all failures of the cause have this message, so that the actual value can be said.
    """
    crashed = printable(next(iter(first.crashes.values()), ""))
    said = _what_failed(first, code, service, alike=alike)
    return f"{crashed}: {said}" if crashed else said


def _what_failed(first: Trouble, code: str, service: str, *, alike: bool) -> str:
    said = first.message.strip()[:_LONGEST].splitlines()
    if first.criterion and code in CATALOG and CATALOG[code].family is Family.ASSERTION:
        told = printable(said[0]).removeprefix("Assertion failed: ") if alike and said else ""
        criterion = printable(first.criterion)
        return told if told.startswith(f"{criterion}: ") else f"{criterion} does not hold"
    message = printable(said[0] if said else first.hint)
    if service:
        return message if f"`{service}`" in message else f"service `{printable(service)}`: {message}"
    site = printable(first.site)
    of_the_site = code in CATALOG and CATALOG[code].scope is Scope.ORIGIN
    return f"{site}: {message}" if of_the_site and site and site not in message else message


def _reach(code: str) -> int:
    scope = CATALOG[code].scope if code in CATALOG else None
    return _REACH.index(scope) if scope in _REACH else len(_REACH)


# Messages without the parts that differ between tasks: numbers, quoted values, ids, the rest of an address.

_LONGEST = 400
"""The number of characters of a message that count."""

_ADDRESS = re.compile(r"((?:https?|wss?)://[^\s'\"<>`?#]+)[?#][^\s'\"<>`]*")
_CALL_OR_QUOTED = re.compile(r"(\w+\([^()]{0,200}\))|'[^']{0,200}'|\"[^\"]{0,200}\"")
_ID = re.compile(r"\b(?=[0-9a-f-]*\d)(?=[0-9a-f-]*[a-f])[0-9a-f]{4,}(?:-?[0-9a-f]{4,})+\b", re.IGNORECASE)
_NUMBER = re.compile(r"\$?\d+(?:[.,:]\d+)*")
_KEPT = re.compile(r"(\w+\([^()]{0,200}\))")


def normalised(message: str) -> str:
    """The message in a form that is equal for one cause. What a criterion reads (`mem('user.name')`) stays."""
    text = _ADDRESS.sub(r"\1", " ".join(message[: 4 * _LONGEST].split())[:_LONGEST])
    text = _CALL_OR_QUOTED.sub(lambda found: found[1] or "'*'", text)
    return "".join(part if _KEPT.fullmatch(part) else _bare(part) for part in _KEPT.split(text))


def _bare(text: str) -> str:
    return _NUMBER.sub("#", _ID.sub("*", text))
