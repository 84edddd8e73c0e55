"""Directory names out of any task id."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.reporting.files import safe_name
from harness.spec.names import slug

NAMES = st.text(min_size=1, max_size=200)


@pytest.mark.parametrize("name", ["B1-2025-001-ERROR-TIMEOUT", "a.b_c", "T1", "console"])
def test_safe_names_stay(name: str) -> None:
    assert slug(name) == name


@pytest.mark.parametrize(
    "name", ["a b", "问题", "../x", "con", "NUL.txt", "com1", "x.", "a" * 150, "a[chromium]", "-x", "-"]
)
def test_other_names_get_a_hash(name: str) -> None:
    made = slug(name)
    assert re.fullmatch(r"[A-Za-z0-9._-]*-[0-9a-f]{8}", made)
    assert made.split(".")[0].casefold() not in ("con", "nul", "com1")


@given(NAMES)
def test_every_name_is_safe(name: str) -> None:
    made = slug(name)
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*", made)
    assert safe_name(made) == made
    assert not made.endswith(".")
    assert len(made) <= 130
    assert made == slug(name)
