"""Where to look first: every code has an answer, and the evidence of a failure may change it."""

from __future__ import annotations

import pytest

from harness.recovery.catalog import CATALOG, Family, Suspect
from harness.recovery.failure import Circumstances, Failure, suspect_of


def test_every_code_names_its_suspect_in_its_row_or_by_its_family() -> None:
    assert [row.code for row in CATALOG.values() if row.family is Family.NONE and row.named_suspect is None] == []
    assert {row.suspect for row in CATALOG.values()} == set(Suspect)


@pytest.mark.parametrize("code", CATALOG)
def test_without_evidence_the_catalog_answers(code: str) -> None:
    assert suspect_of(Failure(code, "m")) is CATALOG[code].suspect


@pytest.mark.parametrize(
    ("failure", "suspect"),
    [
        (Failure("CRITERIA_UNMET", ""), "site"),
        (Failure("ELEMENT_NOT_FOUND", ""), "task"),
        (Failure("SPEC_INVALID", ""), "task"),
        (Failure("CRITERIA_UNMET", "", details={"other_match": {"count": 2, "number": 2, "text": "Stock"}}), "task"),
        (Failure("BROWSER_CRASHED", ""), "machine"),
        (Failure("OUTCOME_UNKNOWN", "", details={"driver": "stopped"}), "machine"),
        (Failure("AGENT_STUCK", ""), "agent"),
        (Failure("LOGIN_FAILED", ""), "project"),
        (Failure("SERVICE_DOWN", "could not be started"), "project"),
        (Failure("SERVICE_DOWN", "", details={"crashes": 3}), "site"),
        (Failure("SERVICE_DOWN", "", details={"crashes": 3, "at_start": True}), "project"),
        (Failure("SERVICE_DOWN", "", circumstances=Circumstances(intended=True)), "project"),
        (
            Failure("ELEMENT_NOT_FOUND", "", details={"missing_parts": ["script a.js: HTTP 404"]}),
            "site",
        ),
        (
            Failure("ELEMENT_NOT_FOUND", "", details={"missing_parts": ["script a.js: net::ERR_BLOCKED"]}),
            "task",
        ),
        (Failure("ELEMENT_NOT_FOUND", "", details={"service_crashes": {"shop": "it crashed"}}), "site"),
        (Failure("BROWSER_CRASHED", "", details={"service_crashes": {"shop": "it crashed"}}), "machine"),
        (Failure("NET_EMPTY_RESPONSE", "", circumstances=Circumstances(intended=True)), "project"),
        (Failure("HTTP_SERVER_ERROR", "", circumstances=Circumstances(routed=True)), "task"),
        (Failure("BROWSER_CRASHED", "", circumstances=Circumstances(injected=True)), "task"),
        (Failure("PAGE_UNRESPONSIVE", "", circumstances=Circumstances(shared=True)), "machine"),
        (Failure("ELEMENT_NOT_FOUND", "", details={"login": {}}), "project"),
        (Failure("ELEMENT_NOT_FOUND", "", details={"pending": ["http://shop.local/app.js"]}), "site"),
    ],
)
def test_evidence_changes_the_answer(failure: Failure, suspect: str) -> None:
    assert suspect_of(failure) == suspect


def test_an_agent_is_suspected_for_what_it_chose_and_not_for_the_site() -> None:
    assert suspect_of(Failure("ELEMENT_NOT_FOUND", ""), by_agent=True) is Suspect.AGENT
    assert suspect_of(Failure("HTTP_SERVER_ERROR", ""), by_agent=True) is Suspect.SITE


def test_after_an_injected_fault_the_task_is_suspected() -> None:
    assert suspect_of(Failure("NET_CONNECTION_REFUSED", ""), after_fault=True) is Suspect.TASK
    assert suspect_of(Failure("INTERNAL_ERROR", ""), after_fault=True) is Suspect.MACHINE, "no fault brings that about"
