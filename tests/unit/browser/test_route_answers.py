"""What a route answers with: the file's own answer, or that of a HAR file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.browser.route_answers import (
    DeclaredAnswer,
    NoAnswerError,
    PatchedAnswer,
    RecordedAnswers,
    RouteAnswer,
    type_of,
)
from harness.browser.routing import Routing
from harness.recovery.failure import Failed
from harness.spec.routes import Patch, Route

URL = "http://x.test/a"


def declared(folder: Path, memory: dict[str, Any] | None = None, **fields: Any) -> RouteAnswer:
    route = Route.model_validate({"url": "*", **fields})
    return DeclaredAnswer(route, folder, lambda: memory or {}).find("GET", URL, None)


def test_the_content_type_follows_from_the_body_unless_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.svg").write_text("<svg/>", "utf-8")
    assert declared(tmp_path, json=None) == RouteAnswer(200, {"content-type": "application/json"}, b"null")
    assert declared(tmp_path, body="x").headers == {"content-type": "text/plain; charset=utf-8"}
    assert declared(tmp_path, file="a.svg") == RouteAnswer(200, {"content-type": "image/svg+xml"}, b"<svg/>")
    assert declared(tmp_path, status=204) == RouteAnswer(204, {})
    named = {"Content-Type": "text/html"}
    assert declared(tmp_path, body="x", headers=named).headers == named
    assert (type_of("a.csv"), type_of("a.unknown")) == ("text/csv; charset=utf-8", "application/octet-stream")


def test_memory_is_filled_in_and_keeps_its_type(tmp_path: Path) -> None:
    memory = {"n": 3, "of": {"a": [1]}}
    found = declared(tmp_path, memory, json={"n": "${memory.n}", "of": "${memory.of}", "text": "$${x}"})
    assert json.loads(found.body) == {"n": 3, "of": {"a": [1]}, "text": "${x}"}
    assert declared(tmp_path, memory, body="n=${memory.n}", headers={"x-n": "${memory.n}"}).headers["x-n"] == "3"
    with pytest.raises(NoAnswerError, match="'m', which was never written"):
        declared(tmp_path, memory, body="${memory.m}")
    with pytest.raises(NoAnswerError, match="more than one line"):
        declared(tmp_path, {"lines": "a\nb"}, body="", headers={"x": "${memory.lines}"})
    with pytest.raises(NoAnswerError, match=r"gone.json cannot be read: No such file"):
        declared(tmp_path, file="gone.json")


def entry(method: str, url: str, status: int = 200, sent: str = "", **content: Any) -> dict[str, Any]:
    request = {"method": method, "url": url, **({"postData": {"text": sent}} if sent else {})}
    headers = [{"name": name, "value": value} for name, value in content.pop("headers", ())]
    return {"request": request, "response": {"status": status, "headers": headers, "content": content}}


def recorded(folder: Path, *entries: dict[str, Any]) -> RecordedAnswers:
    path = folder / "a.har"
    path.write_text(json.dumps({"log": {"entries": entries}}), "utf-8")
    return RecordedAnswers(path)


def test_a_har_file_answers_by_method_url_and_body(tmp_path: Path) -> None:
    cookies = [("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"), ("Content-Encoding", "gzip"), ("X-A", "1")]
    answers = recorded(
        tmp_path,
        entry("POST", URL, -1),
        entry("POST", URL, 201, "one", text="1", headers=cookies),
        entry("POST", URL, 202, "two", text="Mg==", encoding="base64"),
        entry("GET", URL + "#part", text="page"),
    )
    first = RouteAnswer(201, {"Set-Cookie": "a=1\nb=2", "X-A": "1"}, b"1")
    assert answers.find("POST", URL, b"one") == first
    assert answers.find("POST", URL, b"two") == RouteAnswer(202, {}, b"2")
    assert answers.find("POST", URL, b"three") == first, "the nearest that there is"
    assert answers.find("GET", URL, None) == RouteAnswer(200, {}, b"page")
    assert answers.find("GET", URL + "?q=1", None) is None
    assert answers.find("PUT", URL, None) is None


def test_a_redirect_is_followed_within_the_file(tmp_path: Path) -> None:
    answers = recorded(
        tmp_path,
        entry("POST", URL, 303, headers=[("location", "/b")]),
        entry("GET", "http://x.test/b", text="b"),
        entry("GET", "http://x.test/circle", 302, headers=[("Location", "circle")]),
    )
    assert answers.find("POST", URL, b"") == RouteAnswer(200, {}, b"b")
    with pytest.raises(NoAnswerError, match="circle"):
        answers.find("GET", "http://x.test/circle", None)


def test_a_body_beside_the_file_stays_in_its_folder_and_a_lost_one_is_told(tmp_path: Path) -> None:
    (tmp_path / "body.txt").write_text("beside", "utf-8")
    answers = recorded(
        tmp_path,
        entry("GET", URL, _file="body.txt"),
        entry("GET", URL + "2", _file="../secret"),
        entry("GET", URL + "3", size=7, comment="body of 7 characters left out"),
        entry("GET", URL + "4", text="!", encoding="base64"),
    )
    assert answers.find("GET", URL, None) == RouteAnswer(200, {}, b"beside")
    for url, why in (("2", "leaves"), ("3", "recorded without the body"), ("4", "not base64")):
        with pytest.raises(NoAnswerError, match=why):
            answers.find("GET", URL + url, None)


@pytest.mark.parametrize("text", ["", "[]", '{"log": {"entries": [1]}}', '{"log": 1}'])
def test_what_is_no_har_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.har").write_text(text, "utf-8")
    with pytest.raises(Failed, match="it is no HAR file"):
        RecordedAnswers(tmp_path / "a.har")


# Which route answers.


class Broken:
    def find(self, method: str, url: str, body: bytes | None) -> RouteAnswer | None:
        raise ZeroDivisionError(method)


def routing(folder: Path, *routes: dict[str, Any], source: Any = None) -> Routing:
    found = [Route.model_validate({"url": "*", **each}) for each in routes]
    return Routing(found, [source or DeclaredAnswer(each, folder, dict) for each in found])


def statuses(routes: Routing, count: int, url: str = URL) -> list[int | None]:
    decisions = [routes.decide("GET", url, None) for _ in range(count)]
    return [each.answer.status if each and each.answer else None for each in decisions]


def test_the_first_route_answers_until_its_times_and_steps_are_over(tmp_path: Path) -> None:
    routes = routing(
        tmp_path,
        {"status": 201, "times": 1, "steps": 1},
        {"status": 202, "times": 2, "method": "GET"},
        {"status": 203, "method": ["POST", "PUT"]},
    )
    assert statuses(routes, 1) == [202]
    routes.begin_step(1)
    assert statuses(routes, 3) == [201, 202, None]
    assert not routes.answers("GET", URL)
    assert routes.answers("PUT", URL)
    first, second, third = routes.results()
    assert (first.count, first.late, second.count, third.count) == (1, 1, 2, 0)
    assert [each.step for each in second.answered] == [-1, 1]
    assert third.describe() == "POST|PUT * -> 203: answered no request: none matched"
    assert second.describe() == f"GET * -> 202: answered 2 times, first before the first step: GET {URL}"


def test_an_https_request_matches_a_pattern_of_http(tmp_path: Path) -> None:
    routes = routing(tmp_path, {"url": "http://x.test/*", "status": 200})
    assert statuses(routes, 1, "https://x.test/a#part") == [200]


def test_a_defect_aborts_the_request_and_is_the_failure_of_the_step(tmp_path: Path) -> None:
    routes = routing(tmp_path, {"status": 200}, source=Broken())
    assert statuses(routes, 1) == [None]
    found = routes.take_problem()
    assert found is not None
    assert (found.code, found.message) == (
        "ROUTE_UNANSWERED",
        f"route 0 could not answer GET {URL}: ZeroDivisionError: GET",
    )
    assert routes.take_problem() is None
    assert routes.results()[0].describe().endswith("ZeroDivisionError: GET")


def test_of_many_answers_the_first_ones_and_the_last_are_kept(tmp_path: Path) -> None:
    routes = routing(tmp_path, {"status": 200})
    for number in range(150):
        routes.decide("GET", f"http://x.test/{number}", None)
    (met,) = routes.results()
    assert (met.count, len(met.answered), met.answered[-1].url) == (150, 100, "http://x.test/149")


def test_an_answer_is_changed_by_path_and_the_rest_stays() -> None:
    answer = RouteAnswer(
        200, {"Content-Type": "application/json", "ETag": "x", "content-length": "9"}, b'{"a": [1, 2]}'
    )
    patch = Patch.model_validate({"json": {"a[1]": "${memory.n}", "b.c": None}, "headers": {"etag": None, "x-n": "y"}})
    found = PatchedAnswer(patch, lambda: {"n": 5}).apply(answer)
    assert json.loads(found.body) == {"a": [1, 5], "b": {"c": None}}
    assert (found.status, dict(found.headers)) == (200, {"Content-Type": "application/json", "x-n": "y"})
    with pytest.raises(NoAnswerError, match="'n', which was never written"):
        PatchedAnswer(patch, dict).apply(answer)
    with pytest.raises(NoAnswerError, match="there is no item"):
        PatchedAnswer(Patch.model_validate({"json": {"a[7]": 1}}), dict).apply(answer)
