"""Step groups: steps in a file of their own (`*.steps.yaml`), which tasks use by name with values for its parameters.

A group is expanded when a task is loaded, so everything after that sees only steps. Their places stay those of the
group's file.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NoReturn, Self

from msgspec import Struct, field
from pydantic import Field, JsonValue, ValidationError, model_validator

from harness.criteria import CriterionError, parse, parse_value
from harness.recovery.declaration import Declaration
from harness.spec.expressions import unreadable_criterion
from harness.spec.file_names import GROUP_SUFFIXES, HOOKS, INNER, is_short, is_to_expand, is_use
from harness.spec.loaded import Gathered
from harness.spec.problems import UNKNOWN, JsonPath, Problem, SpecError, describe_value, did_you_mean, join_or, kind
from harness.spec.readers import MAX_BYTES, MAX_DEPTH
from harness.spec.references import CRITERIA_OF_STEPS, DATA_OF_STEPS, as_text, depth_of, length_of
from harness.spec.rounds import (
    EACH,
    EACH_KEY,
    MOST_ROUNDS,
    OTHERS,
    REFERENCE,
    Guard,
    Round,
    fill,
    fill_criterion,
    filled_length,
    rounds_of,
)
from harness.spec.short_forms import LongStep, ShortFormError, long_steps
from harness.spec.source import Origin, Place, Source, read_mapping
from harness.spec.step_base import ActedBy
from harness.spec.validation import MOST_STEPS, NO_STEP, problems_of_error, too_many_items, value_at
from harness.values import replace

NAME = re.compile(r"[\w-]+")
_DEEPEST = 50
_TYPES: Mapping[str, tuple[tuple[type, ...], Any]] = {
    "text": ((str,), "text"),
    "number": ((int, float), 1.5),
    "integer": ((int,), 1),
    "boolean": ((bool,), True),
    "list": ((list,), ["text"]),
    "mapping": ((dict,), {"key": "text"}),
    "any": ((object,), "text"),
}
SAMPLES: Mapping[str, Any] = {name: sample for name, (_, sample) in _TYPES.items()}
"""Type -> a value with which a group is checked on its own."""


class Parameter(Declaration):
    """A parameter of a step group. Its steps use it as `${with.NAME}`."""

    type: Literal["text", "number", "integer", "boolean", "list", "mapping", "any"] = Field(
        "text", description="Type of its values. A reference such as `${inputs.x}` may stand for any of them."
    )
    default: JsonValue = Field(None, description="Value for tasks that give none. Without it, each must give one.")
    description: str = Field("", description="What it is for, as `harness validate --list` shows it.")

    @property
    def required(self) -> bool:
        return "default" not in self.model_fields_set


class StepGroup(Declaration):
    """Steps that several tasks use."""

    name: str | None = Field(None, description="Name of the group: that of its file.")
    description: str = Field("", description="What the steps do, as `harness validate --list` shows it.")
    parameters: dict[str, Parameter] = Field(
        default_factory=dict, description="Values that the steps use as `${with.NAME}`, by name."
    )
    steps: list[JsonValue] = Field(min_length=1, description="Steps, written as in a task. They may use other groups.")
    outputs: dict[str, str] = Field(
        default_factory=dict,
        description="Name -> value expression, such as `text('#order')`. It is kept in memory after the last step, as "
        "`GROUP.NAME`.",
    )


class Use(ActedBy):
    """The steps of a group stand in the place of this step."""

    use: str = Field(
        description="Name of the group: of a file `NAME.steps.yaml` beside the task, in a folder above it, or in a "
        "folder `steps` there."
    )
    with_: dict[str, JsonValue] = Field(
        default_factory=dict, alias="with", description="Values for the group's parameters."
    )
    when: str | None = Field(
        None,
        max_length=10_000,
        description="Criterion without which all steps of the group are skipped. It is asked once, before the first; "
        "with `for_each` or `count` before each round.",
    )
    for_each: list[JsonValue] | str | None = Field(
        None,
        description="The steps are done once for each item of this list, `${each}` (or `${each.key}`): a list, or an "
        "expression such as `json('cart', 'items[*].sku')` or `mem('names')`, which is read when it is reached.",
    )
    count: int | None = Field(
        None,
        ge=1,
        le=MOST_ROUNDS,
        description="How often the steps are done, instead of `for_each`; `${each}` is 1, 2 and so on, as a plain "
        "number.",
    )
    at_most: int | None = Field(
        None,
        ge=1,
        le=MOST_ROUNDS,
        description="The most items of a list that is read: a longer one fails. Default: 100, as a plain number.",
    )
    remember: dict[str, str] = Field(
        default_factory=dict, description="Memory key -> output of the group, instead of `GROUP.NAME`."
    )

    @model_validator(mode="after")
    def _one_kind_of_rounds(self) -> Self:
        if self.for_each is not None and self.count is not None:
            raise ValueError("`use` takes either `for_each` or `count`")
        if isinstance(self.for_each, list) and not 1 <= len(self.for_each) <= MOST_ROUNDS:
            raise ValueError(f"`for_each` takes 1 to {MOST_ROUNDS} items")
        if self.at_most is not None and not isinstance(self.for_each, str):
            raise ValueError("`at_most` goes with a `for_each` that is read from somewhere")
        return self


_OF_USE = ("with", "as", "when", "for_each", "count", "at_most", "remember")


class LoadedGroup(Struct, frozen=True):
    """A group with its file."""

    name: str
    group: StepGroup
    source: Source

    @property
    def origin(self) -> Origin:
        return Origin(self.source.file, self.source)


# Finding and reading groups.


def _group_files(folder: Path) -> Iterator[Path]:
    """The files of the groups that tasks in `folder` may use, the nearest first."""
    for base in _up_to_the_project(folder.resolve()):
        for place in (base, base / "steps"):
            found = sorted(place.iterdir()) if place.is_dir() else ()
            yield from (path for path in found if path.name.lower().endswith(GROUP_SUFFIXES))


def _up_to_the_project(folder: Path) -> Iterator[Path]:
    """The folder and those above it, up to the one with a pyproject.toml; without one only the folder itself."""
    above = (folder, *folder.parents)
    last = next((number for number, each in enumerate(above) if (each / "pyproject.toml").is_file()), 0)
    return iter(above[: last + 1])


def _name_of(path: Path) -> str:
    """The name by which tasks use the group of a file."""
    return path.name.rpartition(".steps.")[0]


def load_group(path: Path) -> LoadedGroup:
    """Load a group. Its steps are checked when they are used. Raises SpecError."""
    return _load(path, path.stat().st_mtime_ns)


@lru_cache(256)
def _load(path: Path, _changed: int) -> LoadedGroup:
    source = read_mapping(path)
    origin = Origin(source.file, source)
    if problems := list(too_many_items(source.data, origin)):
        raise SpecError(problems)
    data = {**source.data, "parameters": _with_defaults(source.data.get("parameters", {}))}
    try:
        group = StepGroup.model_validate(data, strict=True)
    except ValidationError as error:
        raise SpecError(problem for _, _, problem in problems_of_error(error, data, origin)) from None
    if problems := list(_group_problems(group, _name_of(path), origin)):
        raise SpecError(problems)
    return LoadedGroup(_name_of(path), group, source)


def _with_defaults(parameters: Any) -> Any:
    """`user:` without more is a text that each task must give."""
    if not isinstance(parameters, dict):
        return parameters
    return {name: {} if each is None else each for name, each in parameters.items()}


def _group_problems(group: StepGroup, name: str, origin: Origin) -> Iterator[Problem]:
    if not NAME.fullmatch(name):
        yield origin.problem((), f"`{name}` cannot name a group", expected="letters, digits, `_` and `-`")
    if group.name is not None and group.name != name:
        message = f"the group calls itself {group.name!r}, but tasks use it by the name of its file"
        yield origin.problem(("name",), message, expected=describe_value(name))
    for each, parameter in group.parameters.items():
        if not NAME.fullmatch(each):
            expected = "letters, digits, `_` and `-`"
            yield origin.problem(("parameters", each), "not a name for a parameter", expected=expected, key=True)
        elif not parameter.required and not _fits(parameter.default, parameter):
            found = describe_value(parameter.default)
            path = ("parameters", each, "default")
            yield origin.problem(path, "wrong type", expected=_words(parameter), found=found)


def _fits(value: Any, parameter: Parameter) -> bool:
    if isinstance(value, str) and "${" in value:
        return True
    if isinstance(value, bool) and parameter.type in ("number", "integer"):
        return False
    return isinstance(value, _TYPES[parameter.type][0])


def _words(parameter: Parameter) -> str:
    return kind(SAMPLES[parameter.type])


# Expanding `use` in a task.


def expand_groups(gathered: Gathered, folder: Path) -> tuple[Gathered, list[Problem]]:
    """The task with the steps of groups in the place of each `use`, and the problems. `folder` is that of the task.

    Raises SpecError for more than a task may have.
    """
    data = gathered.data
    lists: list[JsonPath] = [("steps",), *((key,) for key in HOOKS)]
    for key in ("repairs", "handlers"):
        parts = data.get(key)
        lists += [(key, number, "steps") for number in range(len(parts) if isinstance(parts, list) else 0)]
    using = [path for path in lists if any(map(is_to_expand, _list_at(data, path)))]
    nearest_last = reversed(list(_group_files(folder)))
    plain = sum(len(_list_at(data, path)) for path in lists if path not in using)
    groups, users = {_name_of(path): path for path in nearest_last}, data.get("users")
    work = _Expansion(groups, users if isinstance(users, dict) else {}, count=plain)
    data = deepcopy(data)
    places: dict[JsonPath, Place] = {}
    for path in using:
        steps = _list_at(data, path)
        at = (Place(*gathered.origin.locate((*path, number))) for number in range(len(steps)))
        found = list[tuple[Any, Place]]()
        for step, place in zip(steps, at, strict=True):
            long = [(_named(path, step, each), there) for each, there in work.steps(step, place)]
            found += _numbered(len(found), long)
        steps[:] = [step for step, _ in found]
        places |= {(*path, number): place for number, (_, place) in enumerate(found)}
    _name_checkpoints(data, places)
    return replace(gathered, data=data, origin=replace(gathered.origin, places=places)), work.problems


def _numbered(first: int, steps: list[tuple[Any, Place]]) -> list[tuple[Any, Place]]:
    """The steps that stand for one of the file, with sub-numbers if there are several."""
    if len(steps) == 1:
        return steps
    return [(step, replace(place, number=f"{first}.{part}")) for part, (step, place) in enumerate(steps, 1)]


def _name_checkpoints(data: Any, places: Mapping[JsonPath, Place]) -> None:
    """Put the numbers of the steps in the place of sub-numbers such as `4.2` in `checkpoints`."""
    numbers = {place.number: path[1] for path, place in places.items() if path[0] == "steps" and place.number}
    named = _list_at(data, ("checkpoints",))
    named[:] = [numbers.get(each, each) if isinstance(each, str) else each for each in named]


def _named(path: JsonPath, step: Any, long: Any) -> Any:
    """A step around the task with a note that names its group, by which reports show it."""
    if not (path[0] in HOOKS and is_use(step) and isinstance(long, dict)):
        return long
    note = f"; {long['note']}" if long.get("note") else ""
    return {**long, "note": f"{path[0]}: {step['use']}{note}"}


def _list_at(data: Any, path: JsonPath) -> list[Any]:
    found = value_at(data, path)
    return found if isinstance(found, list) else []


class _Expansion(Struct):
    """The expansion of one task, with all problems so far. Groups multiply what they use: it counts as it goes."""

    groups: Mapping[str, Path]
    """The files of all groups that the task may use, by name."""
    users: Collection[str] = ()
    """The users of the task."""
    problems: list[Problem] = field(default_factory=list)
    count: int = 0
    """The steps of the task so far."""
    filled: int = 0
    """The characters of the steps that groups have brought so far."""
    lists: int = 0
    """The number of lists so far that are read when their steps are reached."""

    def steps(self, step: Any, place: Place, inside: tuple[str, ...] = ()) -> Iterator[tuple[Any, Place]]:
        """A step, or those of the group that it uses, each with its place. `inside`: the groups around it.

        Raises SpecError at a bound.
        """
        if isinstance(step, dict) and INNER in step:
            self.problems.append(place.problem((INNER,), f"{UNKNOWN} `{INNER}`", key=True))
        if is_short(step):
            yield from self._long(step, place, inside)
            return
        if not is_use(step):
            self._count(place, inside)
            yield step, place
            return
        used = self._use(step, place)
        loaded = used and self._group(used, place, inside)
        if not used or not loaded:
            self._count(place, inside)
            yield NO_STEP, place  # so that the other steps are checked too
            return
        self.lists += isinstance(used.for_each, str)
        key = f"for_each_{self.lists}"
        rounds: list[list[tuple[Any, Place]]] = []
        told = len(self.problems)
        for each in rounds_of(used.for_each, used.count, used.at_most or MOST_ROUNDS, key):
            if len(self.problems) > told:
                break  # the same again for each round helps nobody
            rounds.append(self._round(self._of_round(used, each, place), loaded, place, (*inside, loaded.name), each))
        if isinstance(used.for_each, str):
            self._with_list(rounds, used.for_each, key, place)
        yield from chain.from_iterable(rounds)

    def _of_round(self, used: Use, each: Round | None, place: Place) -> Use:
        """The `use` with the item of this round filled in."""
        if each is None:
            return used
        item = {EACH_KEY: each.item}
        when = None if used.when is None else self._fill(used.when, item, place, criterion=True)
        return used.model_copy(update={"with_": self._fill(used.with_, item, place, data=True), "when": when})

    def _round(
        self, used: Use, loaded: LoadedGroup, place: Place, inside: tuple[str, ...], each: Round | None
    ) -> list[tuple[Any, Place]]:
        values = self._values(used, loaded, place)
        if each is not None:
            values = {**values, EACH_KEY: each.item}
        steps = [(_acted_by(used.user, step), at) for step, at in self._filled(loaded, values, place, inside, each)]
        if steps:
            last, where = steps[-1]
            steps[-1] = (self._with_outputs(last, used, loaded, values, place), where)
            steps[0] = (self._with_condition(steps[0][0], used, len(steps), place), steps[0][1])
        return steps

    def _with_list(self, rounds: list[list[tuple[Any, Place]]], text: str, key: str, place: Place) -> None:
        """Let the first step of each round know the list that decides whether there is such a round."""
        try:
            if "${" not in text:
                parse_value(text)
        except CriterionError as error:
            self.problems.append(unreadable_criterion(("for_each",), text, error, place))
            return
        for number, steps in enumerate(rounds):
            if steps and isinstance(steps[0][0], dict):
                guard = Guard(sum(map(len, rounds[number:])), key, number, len(rounds))
                steps[0] = (_guarded(steps[0][0], guard, text), steps[0][1])

    def _with_condition(self, first: Any, used: Use, count: int, place: Place) -> Any:
        """The first step of the group, which knows without which criterion it is left out with the others."""
        if used.when is None or not isinstance(first, dict):
            return first
        try:
            if "${" not in used.when:  # with a reference it is checked once that is filled in
                parse(used.when)
        except CriterionError as error:
            self.problems.append(unreadable_criterion(("when",), used.when, error, place))
            return first
        return _guarded(first, Guard(count), used.when)

    def _long(self, step: dict[str, Any], place: Place, inside: tuple[str, ...]) -> Iterator[tuple[Any, Place]]:
        """The long form of a short step."""
        try:
            found = long_steps(step)
        except ShortFormError as error:
            value = value_at(step, error.path)
            self.problems.append(place.problem(error.path, error.problem, expected=error.expected, value=value))
            found = [LongStep(NO_STEP, {})]
        for each in found:
            self._count(place, inside)
            yield each.step, replace(place, keys=each.keys)

    def _use(self, step: Any, place: Place) -> Use | None:
        try:
            return self._of_known_user(Use.model_validate(step, strict=True), place)
        except ValidationError as error:
            origin = Origin("", place.source)
            for path, _, problem in problems_of_error(error, step, origin):
                allowed = f"a step with `use` takes {join_or(map('`{}`'.format, _OF_USE))} only" if path else ""
                told = place.problem(path, problem.message, expected=problem.expected or allowed, key=True)
                self.problems.append(told)
            return None

    def _of_known_user(self, used: Use, place: Place) -> Use:
        """The `use` itself; without its user, and a problem, if the task has none of that name."""
        if used.user is None:
            return used
        from harness.spec.users import unknown_users  # few tasks have users

        told = list(unknown_users([((), used)], self.users, place))
        self.problems += told
        return used.model_copy(update={"as": None}) if told else used

    def _group(self, used: Use, place: Place, inside: tuple[str, ...]) -> LoadedGroup | None:
        path = self.groups.get(used.use)
        if path is None:
            expected = f"a file {used.use}.steps.yaml beside the task, above it, or in a folder `steps` there"
            hint = did_you_mean(used.use, self.groups)
            message = f"there is no step group `{used.use}`"
            self.problems.append(place.problem(("use",), message, expected=expected, hint=hint))
            return None
        if used.use in inside:
            circle = " -> ".join([*inside, used.use])
            self.problems.append(place.problem(("use",), f"step groups use each other: {circle}"))
            return None
        if len(inside) >= _DEEPEST:
            self._too_much(place, inside, "step groups are nested too deep", f"at most {_DEEPEST} levels")
        try:
            return load_group(path)
        except SpecError as error:
            self.problems += [replace(each, message=place.told(each.message)) for each in error.problems]
            return None

    def _count(self, place: Place, inside: tuple[str, ...]) -> None:
        self.count += 1
        if self.count > MOST_STEPS:
            expected = f"at most {MOST_STEPS:,}, those of all groups included"
            self._too_much(place, inside, f"step {MOST_STEPS + 1:,} of the task: too many steps", expected)

    def _too_much(self, place: Place, inside: tuple[str, ...], message: str, expected: str) -> NoReturn:
        """End the expansion at a bound, with the chain of groups that leads there. Raises SpecError."""
        chain = " -> ".join(f"`{name}`" for name in inside)
        hint = "use groups less often, or split the task" + (f"; here `use` follows `use`: {chain}" if chain else "")
        raise SpecError([*self.problems, place.problem((), message, expected=expected, hint=hint)])

    def _values(self, used: Use, loaded: LoadedGroup, place: Place) -> dict[str, Any]:
        """The values of all parameters; a problem for each that is missing, unknown, or of another type."""
        parameters = loaded.group.parameters
        for name, value in used.with_.items():
            if name not in parameters:
                hint = did_you_mean(name, parameters) or f"it has {join_or(parameters) if parameters else 'none'}"
                message = f"the group `{loaded.name}` has no parameter `{name}`"
                self.problems.append(place.problem(("with", name), message, hint=hint, key=True))
            elif depth_of(value) > MAX_DEPTH:
                message = f"nested more than {MAX_DEPTH} levels deep"
                raise SpecError([*self.problems, place.problem(("with", name), message)])
            elif not _fits(value, parameters[name]):
                found, expected = describe_value(value), _words(parameters[name])
                self.problems.append(place.problem(("with", name), "wrong type", expected=expected, found=found))
        for name, parameter in parameters.items():
            if parameter.required and name not in used.with_:
                message = f"the group `{loaded.name}` needs a value for its parameter `{name}`"
                self.problems.append(place.problem(("use",), message, hint=f"write it below `with`: {{{name}: ...}}"))
        defaults = {name: each.default if not each.required else "" for name, each in parameters.items()}
        return {**defaults, **{name: value for name, value in used.with_.items() if name in parameters}}

    def _filled(
        self,
        loaded: LoadedGroup,
        values: Mapping[str, Any],
        place: Place,
        inside: tuple[str, ...],
        each: Round | None,
    ) -> Iterator[tuple[Any, Place]]:
        lengths = {name: length_of(value) for name, value in values.items()}
        used = (place.shown + (f", round {each.number}" if each is not None else ""), *place.used)
        for number, step in enumerate(loaded.group.steps):
            here = Place(loaded.source, ("steps", number), used)
            outputs = loaded.group.outputs if number == 0 else {}
            self.filled += filled_length([step, outputs], lengths)
            if self.filled > MAX_BYTES:  # a task is not longer with its groups than a file may be
                expected = f"at most {MAX_BYTES:,} characters in the steps of all groups"
                self._too_much(here, inside, "values of parameters make the steps too long", expected)
            for long in _lengthened(step):
                there = replace(here, keys=long.keys)
                yield from self.steps(self._fill_step(long.step, values, there), there, inside)

    def _fill_step(self, step: Any, values: Mapping[str, Any], place: Place) -> Any:
        """The step with all values; the `${each}` of a `use` with rounds of its own stays."""
        if not is_use(step) or not {"for_each", "count"} & step.keys():
            return self._fill(step, values, place)
        own = {key: each for key, each in step.items() if key == "for_each"}
        others = {key: each for key, each in step.items() if key != "for_each"}
        return {
            **self._fill(others, {**values, EACH_KEY: OTHERS}, place),
            **self._fill(own, values, place, criterion=isinstance(own.get("for_each"), str)),
        }

    def _fill(
        self, value: Any, values: Mapping[str, Any], place: Place, criterion: bool = False, *, data: bool = False
    ) -> Any:
        """The value with `${with.NAME}` filled in; in a criterion as a literal. `data`: no key in it is a criterion."""
        if isinstance(value, str):
            try:
                return fill_criterion(value, values) if criterion else fill(value, values)
            except KeyError as error:
                self.problems.append(self._no_value(str(error.args[0]), values, place))
                return value.replace("${with.", "$${with.").replace("${each", "$${each")  # it is told once
        if isinstance(value, dict):
            return {
                key: self._fill(
                    each,
                    values,
                    place,
                    criterion or (key in CRITERIA_OF_STEPS and not data),
                    data=data or key in DATA_OF_STEPS,
                )
                for key, each in value.items()
            }
        if isinstance(value, list):
            return [self._fill(each, values, place, criterion, data=data) for each in value]
        return value

    def _no_value(self, name: str, values: Mapping[str, Any], place: Place) -> Problem:
        if name.partition(".")[0] == EACH and name not in values:
            hint = "give the `use` of the group a `for_each` or a `count`" if EACH_KEY not in values else ""
            return place.problem((), f"`${{{name}}}` has no value here", hint=hint)
        known = [each for each in values if each != EACH_KEY]
        hint = did_you_mean(name, known) or f"it has {join_or(known) if known else 'none'}"
        return place.problem((), f"the group has no parameter `{name}`", hint=hint)

    def _with_outputs(self, last: Any, used: Use, loaded: LoadedGroup, values: Mapping[str, Any], place: Place) -> Any:
        """The last step of the group, which remembers the outputs."""
        outputs = loaded.group.outputs
        for key, name in used.remember.items():
            if name not in outputs:
                hint = did_you_mean(name, outputs) or f"it has {join_or(outputs) if outputs else 'none'}"
                message = f"the group `{loaded.name}` has no output `{name}`"
                self.problems.append(place.problem(("remember", key), message, hint=hint))
        if not outputs or not isinstance(last, dict):
            return last
        own = {name: key for key, name in used.remember.items()}
        kept = {
            own.get(name, f"{loaded.name}.{name}"): self._fill(text, values, place, criterion=True)
            for name, text in outputs.items()
        }
        return {**last, "remember": {**last.get("remember", {}), **kept}}


def _lengthened(step: Any) -> list[LongStep]:
    """The long form of a step of a group, whose keys say which values are criteria; itself if it has none yet.

    A reference that stands for all fields is filled in first. What cannot be read is told where it is expanded.
    """
    with suppress(ShortFormError):
        if is_short(step) and not REFERENCE.fullmatch(str(next(iter(step.values())))):
            return long_steps(step)
    return [LongStep(step, {})]


def _guarded(first: dict[str, Any], guard: Guard, expression: str) -> dict[str, Any]:
    """The first step of several with one more guard, around those that it has."""
    inner = dict(first.get("guards", {}))
    same = inner.pop(str(guard), None)
    return {**first, "guards": {str(guard): f"({expression}) && ({same})" if same else expression, **inner}}


def _acted_by(user: str | None, step: Any) -> Any:
    """The step by the user for whom its group is used, unless it names one itself."""
    return step if user is None or not isinstance(step, dict) else {"as": user, **step}


def sample_use(loaded: LoadedGroup) -> dict[str, Any]:
    """A step that uses a group with sample values, to check the group on its own."""
    required = {name: SAMPLES[each.type] for name, each in loaded.group.parameters.items() if each.required}
    return {"use": loaded.name, "with": required}


def unused_parameters(loaded: LoadedGroup) -> Iterator[Problem]:
    """Yield a warning for each parameter that no step and no output uses."""
    text = as_text([*loaded.group.steps, *loaded.group.outputs.values()])
    for name in loaded.group.parameters:
        if f"${{with.{name}}}" not in text:
            message = f"nothing refers to `${{with.{name}}}`"
            yield loaded.origin.problem(("parameters", name), message, hint="it has no effect", severity="warning")
