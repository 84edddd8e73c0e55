"""Failures of a run by what is behind them."""

from __future__ import annotations

from harness.reporting.triage import Trouble, causes, of_record, troubles
from tests.unit.reporting.history import runs

REFUSED = "net::ERR_CONNECTION_REFUSED at http://shop.local/{}"
OPEN = (
    "nothing was sent: circuit origin:http://shop.local is open after 5 failures in a row, the last: {}: what it "
    "said; it is tried again in 21.4 s"
)


def refused(number: int, **fields: object) -> Trouble:
    return Trouble(
        f"T-{number}", "NET_CONNECTION_REFUSED", REFUSED.format(f"page-{number}"), site="shop.local", **fields
    )


def test_a_dead_site_behind_twelve_tasks_is_one_cause() -> None:
    dead = [refused(number) for number in range(9)]
    waiting = [
        Trouble(f"C-{n}", "CIRCUIT_OPEN", OPEN.format("NET_CONNECTION_REFUSED"), site="shop.local") for n in range(2)
    ]
    silent = Trouble("S-1", "NET_TIMEOUT", "no answer from http://shop.local/cart in 30s", site="shop.local")
    (found,) = causes([*dead, *waiting, silent])
    assert (found.count, found.code) == (12, "NET_CONNECTION_REFUSED")
    assert found.codes == {"NET_CONNECTION_REFUSED": 9, "CIRCUIT_OPEN": 2, "NET_TIMEOUT": 1}
    assert found.what == "net::ERR_CONNECTION_REFUSED at http://shop.local/page-0"


def test_the_sites_of_a_service_that_is_down_are_one_cause() -> None:
    down = Trouble("D", "SERVICE_DOWN", "service `demo` ended at start\nlog", site="bank.local", service="demo")
    other = Trouble("B", "NET_CONNECTION_REFUSED", "refused", site="bank.local")
    (found,) = causes([other, other, down])
    assert (found.code, found.service, found.what) == ("SERVICE_DOWN", "demo", "service `demo` ended at start")
    shop = refused(1)
    assert [each.count for each in causes([shop, other])] == [1, 1]
    (joined,) = causes([shop, other], {"shop.local": "demo", "bank.local": "demo"})
    assert joined.what.startswith("service `demo`: net::ERR_CONNECTION_REFUSED")


def test_a_circuit_belongs_to_what_opened_it() -> None:
    sick = Trouble("H", "HTTP_SERVER_ERROR", "HTTP 500 from http://shop.local/a", site="shop.local")
    after = Trouble("C", "CIRCUIT_OPEN", OPEN.format("HTTP_SERVER_ERROR"), site="shop.local")
    found = causes([refused(1), sick, after])
    assert [(each.code, each.count) for each in found] == [("HTTP_SERVER_ERROR", 2), ("NET_CONNECTION_REFUSED", 1)]


def test_other_sites_and_other_selectors_are_other_causes() -> None:
    def missing(task: str, selector: str, site: str, seconds: int = 10) -> Trouble:
        message = f"no element matches {selector} (looked for {seconds}s)"
        return Trouble(task, "ELEMENT_NOT_FOUND", message, site=site, selector=selector)

    same = [missing("A", "#buy", "shop.local"), missing("B", "#buy", "shop.local", seconds=4)]
    found = causes([*same, missing("C", "#pay", "shop.local"), missing("D", "#buy", "bank.local")])
    assert [[task.task_id for task in each.tasks] for each in found] == [["A", "B"], ["C"], ["D"]]


def test_values_do_not_split_a_cause_and_criteria_do() -> None:
    def wrong(task: str, actual: str) -> Trouble:
        message = f"Assertion failed: #total: actual value = '{actual}', expected '$24.99'"
        return Trouble(task, "ASSERTION_FAILED", message, selector="#total")

    def unmet(key: str) -> Trouble:
        message = f"Precondition not met: mem('{key}') != '': mem('{key}') is missing"
        return Trouble(key, "PRECONDITION_NOT_MET", message)

    assert len(causes([wrong("A", "$29.99"), wrong("B", "")])) == 1
    assert len(causes([unmet("user.name"), unmet("user.mail")])) == 2


def test_what_explains_most_comes_first_and_of_two_alike_what_reaches_farther() -> None:
    browser = Trouble("B", "BROWSER_CRASHED", "the browser is gone")
    page = Trouble("P", "ELEMENT_NOT_FOUND", "no element matches #a", selector="#a")
    both = [Trouble(task, "INVALID_INPUT", "bad selector") for task in ("I", "J")]
    assert [each.code for each in causes([page, browser, *both])] == [
        "INVALID_INPUT",
        "BROWSER_CRASHED",
        "ELEMENT_NOT_FOUND",
    ]


def test_a_foreign_code_and_a_failure_without_one_are_causes_too() -> None:
    found = causes([Trouble("F", "FROM_THE_FUTURE", "new\x1b[31m \u202ekind", site="a.b"), Trouble("N", "", "fixture")])
    assert [(each.code, each.what) for each in found] == [("FROM_THE_FUTURE", "new [31m kind"), ("", "fixture")]


def test_ten_failures_of_a_run_are_ten_causes_and_declared_ones_none() -> None:
    run = runs.run()
    before = runs.nodeid("T-FAILED-3")
    found = causes(troubles(run, {before}))
    assert len(found) == 10
    assert [each.code for each in found if each.new] == ["NET_CONNECTION_REFUSED"]
    assert "T-EXPECTED" not in {task.task_id for each in found for task in each.tasks}


def test_a_task_that_failed_and_passed_when_it_ran_again_is_no_failure() -> None:
    found = troubles(runs.run())
    assert "T-FLAKY" not in {each.task_id for each in found}


def test_a_record_that_does_not_name_its_site_or_service_tells_them_elsewhere() -> None:
    told = of_record(runs.failed("A", "NET_CONNECTION_REFUSED"))
    assert told.site == "bank.local"
    assert of_record(runs.failed("B", "SERVICE_DOWN", message="service `shop` ended")).service == "shop"
    steps = (runs.step(0, True).model_copy(update={"target": "http://gov.local:81/x"}), runs.step(1, False))
    assert of_record(runs.failed("C", "STEP_TIMEOUT", steps=steps)).site == "gov.local:81"


def test_what_has_no_failure_says_why_it_counts() -> None:
    passed = runs.record("A", unexpected=True)
    assert of_record(passed).message == "it did not show the outcome that its `expect` declares"
    partial = runs.record("B", final_state="partial_success")
    assert of_record(partial).message == "it ended as partial_success"
    bare = runs.execution(runs.record("C"), "failed").model_copy(update={"record": None, "reason": "no fixture"})
    assert [each.message for each in troubles(runs.run(parts=[bare]))] == ["no fixture"]


def test_two_criteria_are_two_causes_however_alike_they_read() -> None:
    def unmet(place: str) -> Trouble:
        text = f"url() == 'http://shop.local/{place}'"
        return Trouble(place, "CRITERIA_UNMET", f"Assertion failed: {text}: url() is 'x', expected 'y'", criterion=text)

    assert [each.count for each in causes([unmet("cart"), unmet("checkout"), unmet("cart")])] == [2, 1]


def test_what_was_only_interrupted_comes_last() -> None:
    """However many tasks were cancelled for the sake of the one that failed."""
    cancelled = [Trouble(f"T-{number}", "INTERRUPTED", "The run was interrupted") for number in range(3)]
    found = causes([*cancelled, Trouble("A", "CRITERIA_UNMET", "no")])
    assert [each.code for each in found] == ["CRITERIA_UNMET", "INTERRUPTED"]


def test_an_unmet_criterion_says_the_actual_value_unless_the_tasks_saw_different_ones() -> None:
    def unmet(task: str, actual: str) -> Trouble:
        text = "text('h1') == 'Books'"
        told = f"Assertion failed: {text}: text('h1') is '{actual}', expected 'Books'"
        return Trouble(task, "CRITERIA_UNMET", told, criterion=text)

    (one,) = causes([unmet("A", "Bookz"), unmet("B", "Bookz")])
    assert one.what == "text('h1') == 'Books': text('h1') is 'Bookz', expected 'Books'"
    (other,) = causes([unmet("A", "Bookz"), unmet("B", "Cars")])
    assert other.what == "text('h1') == 'Books' does not hold"
