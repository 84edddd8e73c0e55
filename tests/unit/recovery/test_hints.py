"""What a failure tells to do."""

from __future__ import annotations

from harness.recovery.catalog import CATALOG
from harness.recovery.failure import Failure

HINT = CATALOG["ELEMENT_NOT_FOUND"].hint


def test_what_the_page_has_instead_comes_first() -> None:
    details = {"similar": ["#search-box", "#search-button", "#search-form"]}
    failure = Failure("ELEMENT_NOT_FOUND", "no element matches #serch-box", details=details)
    assert failure.hint == f"Did you mean #search-box or #search-button or #search-form? {HINT}"
    assert Failure("ELEMENT_NOT_FOUND", "no element matches #x").hint == HINT


def test_advice_for_this_very_failure_goes_over_it() -> None:
    assert Failure("ELEMENT_NOT_FOUND", "m", details={"similar": ["#a"]}, advice="Do this.").hint == "Do this."
