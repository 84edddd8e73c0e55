"""What following a test gave, as the files of a task and of the step groups that it uses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from harness.spec.imported.script import LineSpan, TestScript, steps_of
from harness.spec.imported.suite import FollowedTest
from harness.spec.imported.values import LineOfTest
from harness.spec.recorded.journey import Omission, WrittenStep
from harness.spec.recorded.text import TaskText
from harness.values import map_texts

_NOTHING_CHECKED = ("The test expects nothing at its end. Say here what must be true at the end of the task,",)
_EXAMPLE = "for example  \"text('#order-status') == 'confirmed'\""
_UPLOAD = "The file must lie in the folder of this task, or below it."
_LAST_STEP = 1999


class WrittenGroup(Struct, frozen=True):
    """A step group that tasks of the suite use."""

    name: str
    steps: list[dict[str, Any]]
    parameters: tuple[str, ...]
    description: str

    def __str__(self) -> str:
        keys = {"description": self.description} if self.description else {}
        lines = str(TaskText((), keys, [WrittenStep(each) for each in self.steps], ()))
        parameters = "".join(f"  {name}: {{type: any}}\n" for name in self.parameters)
        before, _, after = lines.partition("steps:\n")
        head = f"parameters:\n{parameters}" if parameters else ""
        return f"{before}{head}steps:\n{after}"


class Groups(Struct):
    """The step groups of an import."""

    found: dict[str, WrittenGroup] = field(default_factory=dict)
    """Name -> the group."""

    def name_of(self, span: LineSpan, steps: list[dict[str, Any]]) -> str:
        """The name of the group with these steps; it is made if there is none."""
        wanted = (
            re.sub(r"[^A-Za-z0-9]+", "-", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", span.name)).strip("-").lower()
            or "steps"
        )
        for name in (wanted, *(f"{wanted}-{number}" for number in range(2, 10_000))):
            group = self.found.get(name)
            if group is None:
                parameters = tuple(span.values)
                self.found[name] = WrittenGroup(name, steps, parameters, span.description)
                return name
            if group.steps == steps and group.parameters == tuple(span.values):
                return name
        raise AssertionError("so many groups cannot be")


class WrittenTask(Struct, frozen=True):
    """A test as the text of a task."""

    task_id: str
    text: str
    steps: int
    missing: tuple[Omission, ...]


def task_of(test: FollowedTest, task_id: str, file: Path, groups: Groups, more: Sequence[Omission] = ()) -> WrittenTask:
    """The task of a test. `more` is missing too: then it is a draft."""
    script = test.script
    keys = dict(test.keys)
    unread = [Omission(what, why, f"{file.name}:{test.line}") for what, why in keys.pop("missing", ())]
    missing = [*script.missing, *unread, *more]
    lines = [line for line in script.lines if line.keys or line.notes]
    ending = 0 if missing else _ending(lines, script.spans)
    body = lines[: len(lines) - ending]
    written = list(_with_groups(body, script, groups))
    criteria = [line.criterion for line in lines[len(lines) - ending :]]
    checks = any(line.keys.get("act") in ("assert", "wait", "api") for line in body)
    head = [f"Imported from {file.name}: {test.name}{f' [{test.case}]' if test.case else ''}."]
    head += [keys.pop("note")] if "note" in keys else []
    head += script.notes
    if missing:
        head.append("It is a draft: finish each line with the comment MISSING, and take `draft` out.")
        head += [f"MISSING: {each.place}: {each.why}" for each in (*unread, *more)]
    routes = {"routes": _routes(script, body)} if script.routes else {}
    text = TaskText(
        head=tuple(line for each in head for line in each.splitlines()),
        keys={
            "task_id": task_id,
            "goal": test.goal,
            **({"draft": True} if missing else {}),
            **keys,
            **routes,
            "expect_timeout": 5,
            **script.keys,
        },
        steps=written,
        criteria=criteria,
        criteria_notes=() if criteria or checks else (*_NOTHING_CHECKED, _EXAMPLE),
    )
    return WrittenTask(task_id, str(text), len(steps_of(lines)), tuple(missing))


def _ending(lines: Sequence[LineOfTest], spans: Iterable[LineSpan]) -> int:
    """Whether the last line is an assertion that can be a criterion.

    Only the last: a test expects one after the other, and the criteria of a task must hold at one time.
    """
    guarded = {id(line) for span in spans if span.when for line in span.lines}
    last = lines[-1] if lines else None
    if last is None or not last.criterion or id(last) in guarded or {"remember", "when"} & last.keys.keys():
        return 0
    return 0 if len(lines) > 1 and lines[-2].keys.get("act") == "switch_page" else 1


def _with_groups(lines: Sequence[LineOfTest], script: TestScript, groups: Groups) -> Iterable[WrittenStep]:
    """The steps, with a `use` in place of those that a function of the suite makes."""
    places = {id(line): number for number, line in enumerate(lines)}
    starts: dict[int, tuple[int, LineSpan]] = {}
    for span in script.spans:
        inside = [places[id(line)] for line in span.lines if id(line) in places and line.keys]
        if inside and len(inside) == len(steps_of(span.lines)) and _is_group(span, script):
            first, last = inside[0], inside[-1]
            if first not in starts or starts[first][0] < last:
                starts[first] = (last, span)
    number = 0
    while number < len(lines):
        if number in starts and not _covered(number, starts):
            last, span = starts[number]
            yield _use(span, groups)
            number = last + 1
            continue
        yield _step(lines[number])
        number += 1


def _covered(number: int, starts: Mapping[int, tuple[int, LineSpan]]) -> bool:
    return any(first < number <= last for first, (last, _) in starts.items() if first != number)


def _is_group(span: LineSpan, script: TestScript) -> bool:
    """Whether the steps with the values of this call are exactly those that it has led to."""
    steps = steps_of(span.lines)
    if script.missing and not span.when:
        return False
    if span.template is None:
        return bool(span.when)
    return bool(_filled(span.template, span.values) == steps)


def _filled(template: Any, values: Mapping[str, str]) -> Any:
    def fill(text: str) -> str:
        return re.sub(r"\$\{with\.(\w+)\}", lambda found: values.get(found[1], found[0]), text)

    return map_texts(template, fill)


def _use(span: LineSpan, groups: Groups) -> WrittenStep:
    steps = steps_of(span.lines) if span.template is None else span.template
    values = {name: value for name, value in span.values.items() if f"${{with.{name}}}" in str(steps)}
    span.values = values
    keys: dict[str, Any] = {"use": groups.name_of(span, steps)}
    if values:
        keys["with"] = values
    if span.when:
        keys["when"] = span.when
    return WrittenStep(keys)


def _step(line: LineOfTest) -> WrittenStep:
    upload = (_UPLOAD,) if line.keys.get("act") == "upload" else ()
    return WrittenStep(line.keys, (*line.notes, *upload))


def _routes(script: TestScript, lines: Sequence[LineOfTest]) -> list[dict[str, Any]]:
    """The routes; one that the test declares later acts from that step on. The last declared answers first."""
    found = []
    for keys, before in reversed(script.routes):
        found.append({**keys, **({"steps": [before, _LAST_STEP]} if before else {}), "optional": True})
    return found
