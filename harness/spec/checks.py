"""Checks beyond the models: one part of a task against another, the disk, and this version."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.masking import MARK
from harness.spec.agents import SCRIPTED, unknown_agent
from harness.spec.expressions import expression_problems, reference_problems, steps_of, too_large
from harness.spec.file_names import HOOKS
from harness.spec.marks import in_ci
from harness.spec.names import ABSENT, HOST, HOST_EXPECTED, NO_HOST, SCHEMES, file_problem, forbidden_scheme
from harness.spec.page_steps import Wait
from harness.spec.problems import JsonPath, Problem, describe_value, did_you_mean, join_or
from harness.spec.references import Hide
from harness.spec.selector_checks import of_steps, pattern_problems, problems_of_selectors, selectors_around
from harness.spec.source import Origin
from harness.spec.step_base import RequestingStep
from harness.spec.steps import Api, Assert, Open, Step, Tool, Upload
from harness.spec.task import FAMILY, TAG, TaskSpec
from harness.spec.url_patterns import WEB, may_match
from harness.spec.validation import REQUIRED, REQUIRED_RULES

if TYPE_CHECKING:
    from harness.spec.routes import Route

# `tags` and `family` become pytest marks: the names that are allowed.

TAKEN = frozenset(
    {
        "skip", "skipif", "xfail", "parametrize", "usefixtures", "filterwarnings", "tryfirst", "trylast", "flaky",
        "timeout", "taskspec", "xdist_group", "asyncio", "anyio",
    }
)  # fmt: skip
"""Marks with a meaning for pytest or its plugins: used as tags they would change how the task runs."""


def _mark_problems(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """Yield problems for tags and families that cannot be marks, or would be marks with another meaning."""
    for number, tag in enumerate(spec.tags):
        if not re.fullmatch(TAG, tag):
            expected = "a letter, then letters, digits, `_` and `-`"
            yield origin.problem(("tags", number), "not a tag", expected=expected, value=tag)
        elif tag in TAKEN or tag.startswith("allure_"):
            message = f"pytest or a plugin uses the tag `{tag}` as a mark with its own meaning"
            yield origin.problem(("tags", number), message, hint="choose another word")
    if spec.family is not None and not re.fullmatch(FAMILY, spec.family):
        expected = "letters, digits, `_` and `-`"
        yield origin.problem(("family",), "not a family", expected=expected, value=spec.family)


def _of_being_run(spec: TaskSpec, origin: Origin, environ: Mapping[str, str]) -> Iterator[Problem]:
    """Yield problems of the keys that decide whether a task runs, and whether it may fail."""
    if spec.only and in_ci(environ):
        hint = "it is for one's own desk: remove it, or unset CI"
        yield origin.problem(("only",), "`only` leaves out all other tasks, and CI is set", hint=hint)
    if spec.expected_failure is not None and spec.expect is not None:
        message = "the task has an `expect`, which says how it must end"
        hint = "keep `expect` for an end that is right, and `expected_failure` for a defect that is known"
        yield origin.problem(("expected_failure",), message, hint=hint)


def profile_problems(spec: TaskSpec, origin: Origin, known: Collection[str]) -> Iterator[Problem]:
    """Yield a problem for each browser profile of `skip_if` that the project does not have. `known`: those it has."""
    for number, each in enumerate(spec.skip_if):
        if each.profile is not None and each.profile not in known:
            expected = join_or(sorted(known)) or "a profile of [tool.harness.browser.profiles]; there is none"
            hint = did_you_mean(each.profile, known)
            message = f"there is no browser profile `{each.profile}`"
            yield origin.problem(("skip_if", number, "profile"), message, expected=expected, hint=hint)


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def check_spec(
    spec: TaskSpec,
    origin: Origin,
    folder: Path,
    channels: frozenset[str] | None = None,
    environ: Mapping[str, str] | None = None,
    needs_steps: bool = True,
    agents: Sequence[str] | None = None,
) -> list[Problem]:
    """Return all problems of a task whose types are right.

    `needs_steps`: the task must have steps, unless it names an agent that chooses them. `agents`: the agents of the
    project; None: the names of agents are not checked.
    """
    if large := list(too_large(spec, origin)):
        return large
    return [
        *_task_id(spec, origin),
        *(_no_steps(spec, origin, agents or ()) if needs_steps and spec.agent is None else ()),
        *_of_agents(spec, origin, agents),
        *_of_users(spec, origin),
        *_time(spec, origin),
        *_domains(spec, origin),
        *_mark_problems(spec, origin),
        *_of_being_run(spec, origin, os.environ if environ is None else environ),
        *check_steps(spec.steps, origin, folder),
        *_checkpoints(spec, origin),
        *chain.from_iterable(check_steps(getattr(spec, key), origin, folder, at=(key,)) for key in HOOKS),
        *problems_of_selectors(selectors_around(spec), origin),
        *chain.from_iterable(
            check_steps(steps, origin, folder, at=(*part, "steps"))
            for part, steps in (
                *((("repairs", number), each.steps) for number, each in enumerate(spec.repairs)),
                *((("handlers", number), each.steps) for number, each in enumerate(spec.handlers)),
            )
        ),
        *_unfilled_references(spec, origin),
        *_of_faults(spec, origin, channels),
        *routes_problems(spec.routes, origin, folder, steps=len(spec.steps)),
        *_of_writes(spec, origin),
        *reference_problems(spec, origin, environ),
        *expression_problems(spec, origin, channels),
    ]


def _checkpoints(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """Yield a problem for each sub-number that no step has: the others became numbers when groups came in."""
    numbers = [place.number for path, place in origin.places.items() if path[0] == "steps" and place.number]
    for number, each in enumerate(spec.checkpoints):
        if isinstance(each, str):
            some = [known for known in numbers if known.partition(".")[0] == each.partition(".")[0]]
            has = f"{some[0]} to {some[-1]}" if some else "a sub-number only where a step stands for several"
            yield origin.problem(("checkpoints", number), f"there is no step {each}", expected=has, value=each)


def _task_id(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """Yield the problems of the task id, which names a directory under `errors/`."""
    if "::" in spec.task_id:
        hint = "pytest uses `::` as the separator in `FILE::TASK`, so the task could not be selected"
        yield origin.problem(("task_id",), "a task_id must not hold `::`", value=spec.task_id, hint=hint)
    elif problem := _name_problem(spec.task_id):
        yield origin.problem(("task_id",), f"a task_id {problem}", value=spec.task_id)


def _no_steps(spec: TaskSpec, origin: Origin, agents: Sequence[str]) -> Iterator[Problem]:
    """Yield a problem for a task without steps: it would do nothing, and pass."""
    if not spec.steps:
        hint = "add `steps` (for a folder: oracle_trace.json), or let an agent choose them: `--task-agent NAME`"
        if len(agents) > 1:
            known, one = ", ".join(agents), agents[0]
            say = f'set agent = "{one}" in [tool.harness], or use `--task-agent NAME`'
            hint = f"there are {len(agents)} agents ({known}): {say}"
        yield origin.problem(("steps",), "no steps: a task needs at least one", hint=hint, key=True)


def _name_problem(name: str) -> str | None:
    if "/" in name or "\\" in name:
        return "must not hold a path separator"
    if ".." in name:
        return "must not hold `..`"
    if name.startswith("."):
        return "must not begin with a dot"
    if _CONTROL.search(name):
        return "must not hold control characters"
    if name != name.strip() or not name:
        return "must not begin or end with a space"
    return "has at most 200 characters" if len(name) > 200 else None


def _time(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    if spec.time is None:
        return
    try:
        zoned = datetime.fromisoformat(spec.time).tzinfo is not None
    except ValueError:
        zoned = False
    if not zoned:
        expected = "ISO 8601 with a zone, such as 2025-11-16T09:00:00Z"
        yield origin.problem(("time",), "not a point in time", expected=expected, value=spec.time)


def _domains(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    for number, name in enumerate(spec.allowed_domains):
        if not HOST.fullmatch(name):
            yield origin.problem(("allowed_domains", number), NO_HOST, expected=HOST_EXPECTED, value=name)


_LITERAL = ("episode_id", "allowed_domains", "memory_keys", "artifacts", "dependencies", "tags")
"""Keys whose values are needed before references are filled in."""


def _unfilled_references(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    for name in _LITERAL:
        value = getattr(spec, name)
        for number, text in enumerate([value] if isinstance(value, str) else value or ()):
            if "${" in text:
                path: JsonPath = (name,) if isinstance(value, str) else (name, number)
                yield origin.problem(path, f"`{name}` takes no references", value=text, hint="write it out")


def check_steps(
    steps: tuple[Step, ...], origin: Origin, folder: Path, hide: Hide = str, at: JsonPath = ("steps",)
) -> Iterator[Problem]:
    """Yield problems of selectors, upload files, URLs and screenshot names; a reference is checked once resolved.

    `hide` removes secrets from the texts shown; `at` is the path of the steps.
    """
    yield from of_steps(steps, at, origin, hide)
    for number, step in enumerate(steps):
        path: JsonPath = (*at, number)
        if isinstance(step, Upload):
            yield from _uploads(step, path, origin, folder, hide)
        if isinstance(step, Assert) and step.baseline is not None and "${" not in step.baseline:
            yield from _baseline(step.baseline, (*path, "aria" if step.aria else "screenshot"), origin, folder)
        if isinstance(step, Open | Api) and (scheme := forbidden_scheme(step.url)):
            hint = "write http:// in front of a host" if "." in scheme or scheme == "localhost" else ""
            if forbidden_scheme(hide(step.url)) != scheme:  # it may be part of a secret
                scheme = MARK
            message = f"URLs of the scheme `{scheme}:` are not allowed"
            yield origin.problem((*path, "url"), message, expected=join_or(SCHEMES[:2]), hint=hint)
        yield from _patterns(step, path, origin)
        if step.screenshot_id and "${" not in step.screenshot_id and (problem := _name_problem(step.screenshot_id)):
            yield origin.problem((*path, "screenshot_id"), f"a screenshot_id {problem}")


def _patterns(step: Step, path: JsonPath, origin: Origin) -> Iterator[Problem]:
    """Yield the problems of the URL patterns of a step."""
    if isinstance(step, RequestingStep) and (wanted := step.wanted_request) is not None:
        key = "request" if wanted is not step.expect_request else "expect_request"
        yield from pattern_problems(wanted.url, (*path, key, "url"), origin)
    if isinstance(step, Wait) and step.url is not None and not step.url.startswith("/"):
        yield from pattern_problems(step.url, (*path, "url"), origin)


def _baseline(name: str, path: JsonPath, origin: Origin, folder: Path) -> Iterator[Problem]:
    """Yield the problem of a baseline outside of the task's folder; it need not be there: a run may write it."""
    problem = file_problem(name, folder)
    if problem is not None and problem != ABSENT:
        yield origin.problem(path, problem, expected="a file in the task's folder", value=name)


def _uploads(step: Upload, path: JsonPath, origin: Origin, folder: Path, hide: Hide) -> Iterator[Problem]:
    several = isinstance(step.value, list)
    for number, name in enumerate([step.value] if isinstance(step.value, str) else step.value):
        place: JsonPath = (*path, "value", number) if several else (*path, "value")
        if "${" not in name and (problem := file_problem(name, folder)):
            yield origin.problem(place, problem, expected="a file in the task's folder", value=hide(name))


def _of_faults(spec: TaskSpec, origin: Origin, channels: frozenset[str] | None) -> Iterator[Problem]:
    if spec.faults or spec.expect:
        from harness.spec.fault_checks import expect_problems, faults_problems  # few tasks have faults

        yield from faults_problems(spec, origin, channels)
        yield from expect_problems(spec, origin)


def logins_of(spec: TaskSpec) -> Iterator[tuple[JsonPath, str]]:
    """The logins that a task names, with their places."""
    if spec.login is not None:
        yield ("login",), spec.login
    for name, user in spec.users.items():
        if user.login is not None:
            yield ("users", name, "login"), user.login


def login_problems(path: JsonPath, name: str, origin: Origin, known: Collection[str]) -> Iterator[Problem]:
    """Yield a problem if the project has no login of that name. `known`: its logins."""
    if "${" not in name and name not in known:
        expected = join_or(sorted(known)) if known else "a login of [tool.harness.logins]; there is none"
        hint = did_you_mean(name, known)
        yield origin.problem(path, f"there is no login `{name}`", expected=expected, hint=hint)


def _of_users(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """Yield the problems of `users`, and of steps by somebody who is none."""
    by_whom = [(path, step) for path, step in steps_of(spec) if step.user is not None]
    if not (spec.users or by_whom):
        return
    from harness.spec.users import name_problems, unknown_users  # few tasks have users

    yield from name_problems(spec.users, origin)
    yield from unknown_users(by_whom, spec.users, origin)
    if spec.users and spec.login is not None:
        message = "the task has `users`, and each of them has a login of their own"
        hint = f"write it below the user whom it is for: `{next(iter(spec.users))}: {{login: {spec.login}}}`"
        yield origin.problem(("login",), message, hint=hint, key=True)
    yield from agent_of_users(spec, spec.agent not in (None, SCRIPTED) or bool(spec.agent_fallback), origin)


def agent_of_users(spec: TaskSpec, chosen: bool, origin: Origin) -> Iterator[Problem]:
    """Yield a problem if an agent is `chosen` to act for several users: its tools name none."""
    if chosen and spec.users:
        message = "an agent acts as one person, and the task has `users`: their steps stand in the file"
        key = next((each for each in ("agent", "agent_fallback") if each in spec.model_fields_set), "users")
        yield origin.problem((key,), message, hint="leave the agent out, or the `users`", key=True)


def _of_agents(spec: TaskSpec, origin: Origin, declared: Collection[str] | None) -> Iterator[Problem]:
    """Yield the problems of `agent` and `agent_fallback`. `declared`: the project's agents; None: any name will do."""
    named: list[tuple[JsonPath, str]] = [] if spec.agent is None else [(("agent",), spec.agent)]
    named += [(("agent_fallback", number), name) for number, name in enumerate(spec.agent_fallback or ())]
    first = spec.agent or (SCRIPTED if spec.steps else None)
    before = {first} if first else set()
    for path, name in named:
        if declared is not None and (unknown := unknown_agent(name, declared)):
            yield origin.problem(path, f"there is no agent `{name}`", expected=unknown[0], hint=unknown[1])
        if name == SCRIPTED and not spec.steps:
            yield origin.problem(path, "the agent `scripted` executes the task's `steps`, and there are none")
        if path[0] == "agent_fallback" and name in before:
            hint = "an agent that has failed is not asked again: name each agent once"
            yield origin.problem(path, f"the agent `{name}` is there already", hint=hint)
        before.add(name)
    if spec.agent_fallback_if_unmet and not spec.agent_fallback:
        message = "`agent_fallback_if_unmet` has no effect without `agent_fallback`"
        yield origin.problem(("agent_fallback_if_unmet",), message, hint="name the agents that go on", key=True)


def unfit_for_login(made: TaskSpec, file: str, path: JsonPath, origin: Origin) -> Iterator[Problem]:
    """Yield the reasons why a task cannot log in for others. `file`: its name; `origin` and `path`: who needs it."""
    if made.login is not None:
        yield origin.problem(path, f"{file} logs in, and names a login itself")
    if made.users:
        yield origin.problem(path, f"{file} logs in, and has `users`: a login is that of one person")
    if made.faults:
        message = f"{file} logs in, and declares faults, which do not strike in a login"
        yield origin.problem(path, message, hint="declare them in the task that uses the login")


def _of_writes(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    for number, each in enumerate(spec.allowed_writes):
        if each.url is not None:
            yield from pattern_problems(each.url, ("allowed_writes", number, "url"), origin)


def _of_route(route: Route) -> tuple[tuple[str, ...], str]:
    """The schemes of the URLs that a route can match, and the hint for a pattern that matches none of them."""
    if route.for_sockets:
        return WEB[2:], "the URL of a WebSocket begins with ws:// or wss://, as in ws://host/feed or */feed"
    hint = "a route for WebSockets has `messages` or `connect: false`, and not the keys of an answer"
    return WEB[:2], hint if may_match(route.url, WEB[2:]) else ""


def routes_problems(
    routes: Iterable[Route], origin: Origin, folder: Path, hide: Hide = str, *, steps: int = 0
) -> Iterator[Problem]:
    """Yield the problems of routes; a file with a reference is checked once that is filled in.

    `steps`: the number of the task's steps, if they are known.
    """
    for number, route in enumerate(routes):
        path: JsonPath = ("routes", number)
        yield from pattern_problems(route.url, (*path, "url"), origin, *_of_route(route))
        for key, name in (("file", route.file), ("from_har", route.from_har)):
            if name is not None and "${" not in name and (problem := file_problem(name, folder)):
                found = describe_value(hide(name))
                yield origin.problem((*path, key), problem, expected="a file in the task's folder", found=found)
        last = max(route.steps) if isinstance(route.steps, tuple) else route.steps
        if steps and last is not None and last >= steps:
            expected, found = f"0 to {steps - 1}", describe_value(last)
            yield origin.problem((*path, "steps"), "there is no such step", expected=expected, found=found)


def strict_problems(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """Yield problems for missing keys of a complete file (`--taskspec-strict`)."""
    fails = spec.expect is not None and spec.expect.fails  # then its success criteria may never be judged
    for name in REQUIRED:
        if name not in spec.model_fields_set and not (fails and name == "success_criteria"):
            yield origin.problem((name,), f"the key `{name}` is missing (strict)")
    if "error_recovery" in spec.model_fields_set:
        for name in REQUIRED_RULES:
            if name not in spec.error_recovery.model_fields_set:
                yield origin.problem(("error_recovery", name), f"the key `{name}` is missing (strict)")


# The steps that call tools, against the servers that the project names. Nothing is asked.

_PAGE: Final = "page"
"""The name of the server that is the page under test; every project has it."""
_Servers = Mapping[str, tuple[str, ...]]
"""Name of a tool server of the project -> patterns of the tools that may be called; none: all."""


def tools_called(spec: TaskSpec) -> Iterator[tuple[JsonPath, Tool]]:
    """The steps of a task and of its repairs that call tools, with their places."""
    return ((path, step) for path, step in steps_of(spec) if isinstance(step, Tool))


def tool_problems(spec: TaskSpec, origin: Origin, servers: _Servers) -> Iterator[Problem]:
    """Yield problems of steps that name an unknown server, or a tool that must not be called."""
    for path, step in tools_called(spec):
        if "${" in step.server:
            continue  # it is known when the task begins
        if step.server not in servers and step.server != _PAGE:
            yield _unknown_server((*path, "server"), step.server, servers, origin)
            continue
        allowed = servers.get(step.server, ())
        if allowed and "${" not in step.tool and not any(fnmatchcase(step.tool, pattern) for pattern in allowed):
            message = f"`allow` of [tool.harness.tools.{step.server}] does not name the tool `{step.tool}`"
            hint = did_you_mean(step.tool, allowed) or "add it there if the task may call it"
            yield origin.problem((*path, "tool"), message, expected=join_or(allowed), hint=hint)
    for number, write in enumerate(spec.allowed_writes):
        server = (write.tool or "").partition(".")[0]
        if server and not any(fnmatchcase(name, server) for name in (*servers, _PAGE)):
            yield _unknown_server(("allowed_writes", number), server, servers, origin)


def _unknown_server(path: JsonPath, name: str, servers: _Servers, origin: Origin) -> Problem:
    known = sorted({*servers, _PAGE})
    expected = join_or(known) if servers else f"a server of [tool.harness.tools], or `{_PAGE}`; there is none"
    return origin.problem(path, f"unknown tool server `{name}`", expected=expected, hint=did_you_mean(name, known))
