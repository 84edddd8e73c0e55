"""`routes:` and `expect_request:`: what a file may say, and what a plan makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.model.plan import Plan
from harness.model.settings import Settings
from harness.runner.compile import compile_plan
from harness.spec.expressions import heard
from harness.spec.problems import SpecError
from harness.spec.routes import Route
from harness.spec.task import TaskSpec
from tests.unit.spec.files import loaded, problems, task, write

ORDERS = {"url": "*/api/orders", "method": "POST"}


def plan_of(folder: Path, environ: dict[str, str] | None = None, **spec: Any) -> Plan:
    found = TaskSpec.model_validate(task(**spec))
    return compile_plan(found, settings=Settings(), run_id="r", folder=folder, environ=environ or {})


@pytest.mark.parametrize(
    ("said", "place", "message"),
    [
        ({}, "{", "a route needs `status`, `json`, `body`, `file`, `patch` or `from_har`"),
        ({"status": 200, "from_har": "x.har"}, "{", "leave `status` out"),
        ({"json": 1, "body": "x"}, "{", "an answer has one body: leave `body` out"),
        ({"json": None, "status": 204}, "{", "an answer of status 204 has no body"),
        ({"status": 200, "missing": "pass"}, "{", "`missing` is only for a route with `from_har`"),
        ({"status": 200, "steps": [2, 1]}, "{", "`steps` names the first step and then the last one"),
        ({"patch": {}}, '"patch"', "`patch` needs `json`, `status` or `headers`"),
        ({"patch": {"status": 500}, "json": 1}, "{", "`patch` changes the site's own answer: leave `json` out"),
        ({"patch": {"json": {"a[": 1}}}, '"json"', "is not a path"),
        ({"patch": {"json": {"a": 1}, "status": 204}}, '"patch"', "has no body: leave `json` out"),
        ({"patch": {"headers": {"a b": "x"}}}, '"headers"', "is not the name of a header"),
        ({"abort": "failed"}, "{", "declare a fault: `faults: [{kind: abort, url: ...}]`"),
        ({"status": 200, "method": "post"}, '"post"', "not a known word"),
        ({"status": 200, "steps": 5}, " 5", "there is no such step"),
        ({"status": 200, "url": "/api"}, '"/api"', "no URL matches"),
        ({"status": 200, "headers": {"a b": "x"}}, '"headers"', "is not the name of a header"),
        ({"status": 200, "delay": -1}, "-1", "out of range"),
        ({"file": "none.json"}, '"none.json"', "there is no such file"),
        ({"from_har": "../x.har"}, '"../x.har"', "leaves the task's folder"),
        (
            {"status": 200, "url": "*${memory.x}"},
            '"*$',
            "`headers`, `json`, `body`, `patch`, `messages` of a route only",
        ),
        ({"json": {"a": ["${inputs.nothing}"]}}, '"${inputs', "`inputs` has no `nothing`"),
        ({"status": 200, "times": 0}, " 0", "out of range"),
        ({"status": 200, "tims": 1}, '"tims"', "unknown key `tims`"),
    ],
)
def test_a_bad_route_is_told_with_its_place(tmp_path: Path, said: dict[str, Any], place: str, message: str) -> None:
    path = write(tmp_path, task(routes=[{"url": "*", **said}]))
    (found,) = problems(path)
    assert message in found.message
    line = path.read_text("utf-8").splitlines()[found.line - 1]
    assert line[found.column - 1 :].startswith(place.strip()) or place.strip() in line


@pytest.mark.parametrize(
    ("said", "place", "message", "hint"),
    [
        ({"connect": True}, "{", "a route for WebSockets needs `messages` or `connect: false`", ""),
        ({"messages": []}, "{", "a route for WebSockets needs `messages` or `connect: false`", ""),
        ({"connect": False, "status": 200}, "{", "a route for WebSockets answers no request: leave `status` out", ""),
        ({"messages": [{"close": 1000}], "method": "GET"}, "{", "leave `method` out", ""),
        ({"messages": [{}]}, "{}", "needs `send`, `patch`, `drop` or `close`", ""),
        ({"messages": [{"drop": False, "sent": "x"}]}, "{", "needs `send`, `patch`, `drop` or `close`", ""),
        ({"messages": [{"drop": True}]}, "{", "`drop` needs `sent` or `received`: which messages", ""),
        ({"messages": [{"at": 2, "close": 1000}]}, "{", "`at` needs `sent` or `received`", ""),
        ({"messages": [{"sent": "x", "received": "x", "drop": True}]}, "{", "make two entries", ""),
        ({"messages": [{"sent": "x", "patch": {"json": {"a": 1}}, "drop": True}]}, "{", "leave `patch` out", ""),
        ({"messages": [{"sent": "x", "patch": {"json": {"a[": 1}}}]}, "{", "is not a path", ""),
        ({"messages": [{"sent": "x", "patch": {"json": {}}}]}, "{}", "out of range", ""),
        ({"messages": [{"sent": {"json": {"a[": 1}}, "drop": True}]}, "{", "is not a path", ""),
        ({"messages": [{"sent": {"json": {"a": 1}, "x": 1}, "drop": True}]}, '"x"', "unknown key `x`", ""),
        ({"messages": [{"send": "x", "reason": "y"}]}, "{", "`reason` is only for `close`", ""),
        ({"messages": [{"send": {"json": 1, "same": ["id"]}}]}, "{", "`same` needs `sent` or `received`", ""),
        ({"messages": [{"close": 999}]}, "999", "out of range", ""),
        ({"messages": [{"sned": "x"}]}, '"sned"', "unknown key `sned`", "`send`"),
        ({"connect": False, "messages": [{"received": "x", "drop": True}]}, "{", "leave `received` out", ""),
        ({"url": "http://x.test/*", "connect": False}, '"http', "no URL matches", "begins with ws:// or wss://"),
        ({"url": "ws://x.test/*", "status": 200}, '"ws:', "no URL matches", "a route for WebSockets has `messages`"),
        ({"messages": [{"send": "${inputs.nothing}"}]}, "${inputs", "`inputs` has no `nothing`", ""),
    ],
)
def test_a_bad_route_of_websockets_is_told_with_its_place(
    tmp_path: Path, said: dict[str, Any], place: str, message: str, hint: str
) -> None:
    path = write(tmp_path, task(routes=[{"url": "*", **said}]))
    (found,) = problems(path)
    assert message in found.message
    assert hint in (found.hint or "")
    line = path.read_text("utf-8").splitlines()[found.line - 1]
    assert line[found.column - 1 :].startswith(place), line[found.column - 1 :]


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"url": "/api"}, "no URL matches"),
        ({"url": "*", "json": {"a..b": 1}}, "'a..b' is not a path"),
        ({"url": "*", "method": "GET", "json": {"a": 1}}, "a GET request has no body"),
        ({"url": "*", "withn": 1}, "unknown key `withn`"),
        ({"url": "*", "json": {"a": "${inputs.nothing}"}}, "`inputs` has no `nothing`"),
    ],
)
def test_a_bad_expectation_is_told(tmp_path: Path, said: dict[str, Any], message: str) -> None:
    click = {"act": "click", "selector": "#a", "expect_request": said}
    (found,) = problems(write(tmp_path, task(steps=[click])))
    assert message in found.message


def test_only_acts_by_which_a_page_may_send_take_an_expectation(tmp_path: Path) -> None:
    api = {"act": "api", "url": "http://x.test/", "expect_request": {"url": "*"}}
    (found,) = problems(write(tmp_path, task(steps=[api])))
    assert "unknown key `expect_request`" in found.message


def test_a_pattern_of_requests_that_matches_no_url_is_told(tmp_path: Path) -> None:
    (found,) = problems(write(tmp_path, task(success_criteria=["requests('POST /api').length == 1"])))
    assert "matches no URL" in found.message
    assert found.hint.startswith("write http://host/api or */api")


@pytest.mark.parametrize(
    ("criterion", "hint"),
    [
        ("responses('GET /api').length == 0", "write http://host/api or */api"),
        ("messages('http://x.test/*').length == 0", "`received`"),
        ("console('it broke').length == 0", "write `* it broke` or `*it broke*` for any type"),
        ("console('error').length == 0", "`error *` for the errors"),
    ],
)
def test_a_pattern_that_can_match_nothing_is_refused(tmp_path: Path, criterion: str, hint: str) -> None:
    (found,) = problems(write(tmp_path, task(success_criteria=[criterion])))
    assert "matches no" in found.message
    assert hint in found.hint


def test_patterns_that_can_match_are_accepted(tmp_path: Path) -> None:
    criteria = [
        "console('error*').length == 0 && console('*').length > 0 && console('pageerror *').length == 0",
        "messages('received wss://x.test/*').length == 1 && messages('*').length == 2",
        "responses('GET */api/items')[-1].json.items[0].id == 1",
    ]
    assert problems(write(tmp_path, task(success_criteria=criteria))) == ()
    spec = TaskSpec.model_validate(task(success_criteria=criteria))
    assert set(heard(spec)) == {"responses", "messages"}
    assert set(heard(TaskSpec.model_validate(task(success_criteria=["title() == 'x'"])))) == set()


def test_a_precondition_cannot_read_what_the_steps_do(tmp_path: Path) -> None:
    (found,) = problems(write(tmp_path, task(preconditions=["downloads().length == 0"])))
    assert "`downloads(...)` reads what pages have done in the steps" in found.message


def test_a_route_lasts_for_its_steps() -> None:
    def at(steps: Any) -> list[int]:
        route = Route.model_validate({"url": "*", "status": 200, "steps": steps})
        return [step for step in range(-1, 4) if route.lasts_at(step)]

    assert (at(None), at(1), at([0, 2])) == ([-1, 0, 1, 2, 3], [1], [0, 1, 2])


def test_a_plan_has_everything_but_memory(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}", "utf-8")
    answer = {"id": "${memory.id}", "n": "${inputs.n}", "dollar": "$${x}"}
    routes = [
        {**ORDERS, "json": answer, "headers": {"x-token": "${env:TOKEN}"}},
        {"url": "http://${inputs.host}/*", "file": "${inputs.file}", "method": ["GET", "HEAD"]},
    ]
    inputs = {"n": 3, "host": "x.test", "file": "a.json"}
    plan = plan_of(tmp_path, {"TOKEN": "s3cret"}, routes=routes, inputs=inputs)
    first, second = plan.routes
    assert first.json == {"id": "${memory.id}", "n": 3, "dollar": "$${x}"}
    assert (first.headers, first.methods) == ({"x-token": "s3cret"}, ("POST",))
    assert "s3cret" in plan.secrets
    assert (second.url, second.file, second.methods) == ("http://x.test/*", "a.json", ("GET", "HEAD"))


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"file": "${inputs.up}"}, "the path leaves the task's folder"),
        ({"status": 200, "headers": {"x": "${inputs.lines}"}}, "more than one line, once its references are filled in"),
        ({"url": "${inputs.up}", "status": 200}, "no URL matches"),
    ],
)
def test_what_a_reference_gives_is_checked_too(tmp_path: Path, said: dict[str, Any], message: str) -> None:
    inputs = {"up": "../a", "lines": "a\nb"}
    with pytest.raises(SpecError, match=message):
        plan_of(tmp_path, routes=[{"url": "*", **said}], inputs=inputs)


def test_the_type_of_an_expected_value_stays(tmp_path: Path) -> None:
    expected = {"url": "*${inputs.path}", "json": {"n": "${inputs.n}", "m": "${memory.m}", "all": "${inputs.all}"}}
    click = {"act": "click", "selector": "#a", "expect_request": expected}
    plan = plan_of(tmp_path, steps=[click], inputs={"n": 3, "path": "/x", "all": {"a": 1}})
    found = getattr(plan.steps[0], "expect_request")  # noqa: B009 - not every act has it
    assert (found.url, found.json) == ("*/x", {"n": 3, "m": "${memory.m}", "all": {"a": 1}})


def test_a_file_has_its_routes(tmp_path: Path) -> None:
    found = loaded(tmp_path, task(routes=[{**ORDERS, "status": 201, "steps": [0, 0]}]))
    assert found.spec.routes[0].steps == (0, 0)
    assert found.spec.routes[0].describe() == "POST */api/orders -> 201"
