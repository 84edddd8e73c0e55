"""Faults of the page, as they are declared."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from harness.spec.faults import Popup


@pytest.mark.parametrize("url", ["about:blank", "/popup?x=1", "http://shop.local/", "https://shop.local/"])
def test_what_a_popup_may_open(url: str) -> None:
    assert Popup(url=url).target == url


@pytest.mark.parametrize("url", ["javascript:alert(1)", "file:///etc/hosts", "data:text/html,x", "popup", ""])
def test_what_a_popup_may_not_open(url: str) -> None:
    with pytest.raises(ValidationError, match="`url` must begin with http://, https:// or /") as raised:
        Popup(url=url)
    assert repr(url) in str(raised.value)
