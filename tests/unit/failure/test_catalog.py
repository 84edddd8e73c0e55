"""The catalog: one row for each code, each row complete."""

from __future__ import annotations

import pytest

from harness.failure import CATALOG, ErrorType, Failure, Family, Row
from harness.recovery import Rulebook


@pytest.mark.parametrize("row", CATALOG.values(), ids=CATALOG)
def test_a_row_says_what_happened_and_what_one_can_do(row: Row) -> None:
    assert row.code == row.code.upper()
    assert row.cause.endswith(".")
    assert row.hint.endswith(".")


@pytest.mark.parametrize("error_type", [kind for kind in ErrorType if kind is not ErrorType.BUDGET_EXCEEDED])
def test_every_error_type_has_a_code(error_type: ErrorType) -> None:
    assert any(row.error_type is error_type for row in CATALOG.values())


@pytest.mark.parametrize("family", [family for family in Family if family is not Family.NONE])
def test_a_family_is_the_name_of_a_rule(family: Family) -> None:
    assert family.value in Rulebook.model_fields


def test_a_failure_speaks_for_its_row() -> None:
    failure = Failure("NET_DNS", "no such name")
    assert (failure.type, failure.family, failure.retryable) == ("network_dns_failure", Family.NETWORK, True)


def test_a_code_that_is_not_in_the_catalog_is_an_error() -> None:
    with pytest.raises(KeyError):
        _ = Failure("NOPE", "x").type
