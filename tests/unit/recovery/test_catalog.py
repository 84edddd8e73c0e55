"""The catalog: one row for each code, each row complete."""

from __future__ import annotations

import pytest
from yaml import safe_load

from harness.recovery import Rulebook
from harness.recovery.catalog import CATALOG, FAMILIES, ErrorType, Family
from harness.recovery.failure import Circumstances, Failure
from harness.reporting.files import NAMES


def test_a_row_says_what_happened_and_what_one_can_do() -> None:
    assert [code for code in CATALOG if code != code.upper()] == []
    assert [row.code for row in CATALOG.values() if not (row.cause.endswith(".") and row.hint.endswith("."))] == []


def test_every_error_type_has_a_code() -> None:
    assert set(ErrorType) - {row.error_type for row in CATALOG.values()} == set()


def test_a_family_is_the_name_of_a_rule() -> None:
    assert {family.value for family in Family} - Rulebook.model_fields.keys() == {Family.NONE.value}


def test_no_family_is_forgotten() -> None:
    assert set(FAMILIES) == set(Family)
    assert {row.first_artifact for row in CATALOG.values()} - {"", *NAMES} == set()
    names = [facts.recovery_name for facts in FAMILIES.values()]
    assert len(set(names)) == len(names), "each family has a rate of its own"
    proposed = [facts.proposed_rule[0] for facts in FAMILIES.values() if facts.proposed_rule]
    assert [rule for rule in proposed if not Rulebook.model_validate(safe_load(rule))] == []


def test_a_failure_speaks_for_its_row() -> None:
    failure = Failure("NET_DNS", "no such name")
    assert (failure.type, failure.family, failure.retryable) == ("network_dns_failure", Family.NETWORK, True)


def test_the_network_is_tried_again_as_often_as_the_row_says() -> None:
    network = [row for row in CATALOG.values() if row.family is Family.NETWORK]
    assert {row.code for row in CATALOG.values() if row.max_retries} == {row.code for row in network if row.retryable}


def test_what_is_so_of_a_failure_is_evidence_and_stays_so() -> None:
    failure = Failure("BROWSER_CRASHED", "gone", details={"url": "http://shop.local/"})
    assert failure.evidence == {"url": "http://shop.local/"}
    told = failure.also(Circumstances(shared=True)).also(Circumstances(injected=True))
    assert told.evidence == {"url": "http://shop.local/", "shared": True, "injected": True}
    assert told.circumstances == Circumstances(shared=True, injected=True)


@pytest.mark.parametrize(
    ("failure", "category"),
    [
        (Failure("HTTP_RATE_LIMITED", "429"), "rate_limit"),  # its row names one
        (Failure("NET_DNS", "no such name"), "network"),  # its family does
        (Failure("BROWSER_CRASHED", "gone"), "session"),
        (Failure("BROWSER_CRASHED", "gone", circumstances=Circumstances(innocent=True)), "infrastructure"),
        (Failure("ELEMENT_NOT_FOUND", "no #a"), "element_not_found"),  # its `error_type`
        (Failure("AGENT_STUCK", "stuck"), "logic"),  # which is `unknown` here
        (Failure("AGENT_INVALID_STEP", "no step"), "validation"),
    ],
)
def test_what_events_call_a_failure(failure: Failure, category: str) -> None:
    assert failure.event_category == category


@pytest.mark.parametrize(
    ("failure", "source"),
    [
        (Failure("NET_DNS", "no such name"), "server"),
        (Failure("DATA_CORRUPTION", "no JSON"), "server"),
        (Failure("SERVICE_DOWN", "down"), "server"),
        (Failure("ELEMENT_NOT_FOUND", "no #a"), "client"),
        (Failure("PRECONDITION_NOT_MET", "no cart; pytest_taskspec_repair failed: ValueError"), "hook"),
    ],
)
def test_who_failed(failure: Failure, source: str) -> None:
    assert failure.origin == {"code": failure.code, "severity": str(failure.severity), "source": source}


def test_a_code_that_is_not_in_the_catalog_is_an_error() -> None:
    with pytest.raises(KeyError):
        _ = Failure("NOPE", "x").type
