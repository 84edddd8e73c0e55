"""What real Chromium sends twice by itself is told of a declared write, and of nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from harness.browser import net_log
from harness.browser.net_log import sent_again
from harness.model.record import Sent
from tests.browser.stage import SHOP, Stage, failed

FORM = "<form method=post action=%s><button id=pay>Pay</button></form>"
URL = f"http://{SHOP}/reset"


@pytest.mark.parametrize(("step", "told"), [({"act": "submit"}, True), ({"act": "click"}, False)])
def test_a_post_on_a_connection_that_breaks_is_sent_twice_and_known_of_a_write(
    run: Any, stage: Stage, monkeypatch: pytest.MonkeyPatch, step: dict[str, Any], told: bool
) -> None:
    monkeypatch.setattr(net_log, "SECONDS", 10.0)  # a browser among many is too busy to answer in time

    async def body() -> tuple[list[Sent], int]:
        session = await stage.at("/saved")
        before = stage.site.hits.get("/reset", 0)
        await session.tab.page.set_content(FORM % URL)
        await session.take_settled()
        await failed(session, {**step, "selector": "#pay"}, 10, 5)
        taken = await session.take_settled()
        return [each for each in taken if each.method == "POST"], stage.site.hits["/reset"] - before

    (sent,), hits = run(body())
    assert hits == 2  # what Chromium does; when it no longer does, this module is not needed
    assert (sent.url, sent.twice) == (URL, told)


def test_the_net_log_is_read_by_request() -> None:
    def event(name: str, number: int, ts: int, **params: Any) -> dict[str, Any]:
        return {"name": name, "id2": {"local": number}, "ts": ts, "args": {"params": params}}

    start, again = "URL_REQUEST_START_JOB", "HTTP_TRANSACTION_RESTART_AFTER_ERROR"
    events = [
        event(again, 1, 5),
        event(start, 1, 1, url="http://x/order#a", method="POST"),
        event(start, 2, 2, url="http://x/", method="GET"),
        event(start, 1, 9, url="http://x/thanks", method="GET"),
        event(again, 3, 4),
    ]
    assert sent_again(events) == {("POST", "http://x/order")}
