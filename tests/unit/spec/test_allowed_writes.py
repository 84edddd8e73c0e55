"""`allowed_writes:`: what a file may say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.spec.task import TaskSpec
from tests.unit.spec.files import problems, task, write


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({}, "an allowed write needs `url`, `selector`, both, or `tool`"),
        ("shop.local/cart", "no URL matches: the pattern must match the whole URL"),
        ({"selector": "#a", "method": "POST"}, "`method` is only for an allowed write with a `url`"),
        ({"url": "http://shop.local/*", "frame": "#f"}, "`frame` is only for an allowed write with a `selector`"),
        ("GET http://shop.local/*", "not a known word"),
        ("POST http://shop.local/${inputs.x}", "references are not filled in here: write `*`"),
        ({"selector": "#a-${inputs.x}"}, "references are not filled in here: write `*`"),
        ({"url": "http://shop.local/*", "metod": "POST"}, "did you mean `method`"),
        ("tool place_order", "`tool` must be written `server.tool`, not 'place_order'"),
        ({"tool": "shop.a", "url": "**"}, "an allowed write with `tool` needs no other key"),
        ({"url": "**", "done_when": "url() == 'x'"}, "`done_when` is only for an allowed write with a `tool`"),
        ({"tool": "shop.a", "done_when": "url() =="}, "the text ends too early"),
        ({"tool": "shop.a", "done_when": "url() == '${inputs.x}'"}, "references are not filled in here: write `*`"),
        ("tool shop.${inputs.x}", "references are not filled in here: write `*`"),
        (7, ""),
    ],
)
def test_what_is_no_allowed_write_is_refused_with_its_place(tmp_path: Path, said: Any, message: str) -> None:
    found = problems(write(tmp_path, task(allowed_writes=[said])))
    assert [problem.path.startswith("allowed_writes[0]") for problem in found] == [True]
    assert message in f"{found[0].message} {found[0].hint}"
    assert found[0].line


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("POST http://shop.local/cart*", "POST http://shop.local/cart*"),
        ("http://shop.local/*", "http://shop.local/*"),
        ({"url": "**/pay", "method": "PUT", "selector": "#pay"}, "PUT **/pay from #pay"),
        ("tool shop.place_*", "tool shop.place_*"),
        ({"tool": "page.buy"}, "tool page.buy"),
        ({"selector": "#pay", "frame": "#f"}, "#pay in the frame #f"),
    ],
)
def test_it_is_a_pattern_or_a_mapping(said: Any, shown: str) -> None:
    assert TaskSpec.model_validate(task(allowed_writes=[said])).allowed_writes[0].describe() == shown
