"""Tokens count only for their project, their scope and their time."""

from __future__ import annotations

import secrets
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.serve.tokens import KEY, RefusedTokenError, Tokens, TokenScope, live_address

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
TOKENS = Tokens(b"k" * 32)


@pytest.mark.parametrize("scope", TokenScope)
def test_a_token_has_its_scope_until_its_end(scope: TokenScope) -> None:
    token = TOKENS.issue(scope, NOW, HOUR)
    assert TOKENS.check(token, NOW + HOUR) is scope
    with pytest.raises(RefusedTokenError, match="expired") as refused:
        TOKENS.check(token, NOW + HOUR + timedelta(seconds=1))
    assert refused.value.expired


def test_a_token_of_another_project_is_refused() -> None:
    with pytest.raises(RefusedTokenError, match="none of this project") as refused:
        Tokens(b"x" * 32).check(TOKENS.issue(TokenScope.VIEW, NOW, HOUR), NOW)
    assert not refused.value.expired


@given(st.text(max_size=80))
def test_no_other_text_is_a_token(text: str) -> None:
    with pytest.raises(RefusedTokenError):
        TOKENS.check(text, NOW)


@given(st.integers(0, 100), st.characters())
def test_a_changed_token_is_refused(place: int, character: str) -> None:
    token = TOKENS.issue(TokenScope.VIEW, NOW, HOUR)
    place %= len(token)
    changed = token[:place] + character + token[place + 1 :]
    if changed != token:
        with pytest.raises(RefusedTokenError):
            TOKENS.check(changed, NOW)


def test_the_key_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    assert Tokens.of(tmp_path) == Tokens.of(tmp_path)
    assert (tmp_path / KEY).stat().st_mode & 0o777 == 0o600
    token = live_address(tmp_path, "http://127.0.0.1:1/", NOW, "R").partition("token=")[2].partition("&")[0]
    assert Tokens.of(tmp_path).check(token, NOW) is TokenScope.VIEW


def test_half_a_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / KEY).parent.mkdir()
    (tmp_path / KEY).write_bytes(b"short")
    with pytest.raises(OSError, match="delete it"):
        Tokens.of(tmp_path)


def test_of_processes_that_begin_at_once_none_reads_half_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[bytes] = []

    def another_began(size: int) -> str:
        if size > 8 and not found:
            found.append(b"")  # it begins while this one is about to write
            found.append(Tokens.of(tmp_path).key)
        return made(size)

    made = secrets.token_hex
    monkeypatch.setattr("harness.serve.tokens.secrets.token_hex", another_began)
    assert Tokens.of(tmp_path).key == found[1] == (tmp_path / KEY).read_bytes()
    assert stat.S_IMODE((tmp_path / KEY).stat().st_mode) == 0o600
    assert [each.name for each in (tmp_path / KEY).parent.iterdir()] == [KEY.name]
