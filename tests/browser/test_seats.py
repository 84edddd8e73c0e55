"""Several users in one session: what is of each, what is of all, and what the evidence has of whom."""

from __future__ import annotations

import pytest

from harness.browser.routing import Routing
from harness.browser.seats import Seats
from harness.recovery import Capture
from harness.recovery.failure import Failed
from harness.spec.context import ContextOptions
from harness.spec.routes import Route
from tests.browser.stage import SHOP, Stage, passed

PAGE = f"http://{SHOP}/orders"
PATCHED = {"url": f"http://{SHOP}/api/orders", "patch": {"status": 418}}
CARD = "[name=card]"


async def both(stage: Stage) -> Seats:
    """Ann and bob, who has another locale; each has opened the page, to which the same routes apply."""
    routing = await Routing.of([Route.model_validate(PATCHED)], stage.folder, dict)
    german = ContextOptions(locale="de-DE")
    seats = Seats(
        {
            "ann": await stage.session(user="ann", routing=routing),
            "bob": await stage.session(user="bob", seat=1, routing=routing.shared(), context=german),
        }
    )
    for user in ("ann", "bob"):
        seats.act_as(user)
        seats.begin_step(0, lambda _: None)
        await passed(seats.of(), {"act": "open", "url": PAGE})
    return seats


async def test_each_user_has_a_browser_and_what_the_pages_of_all_have_sent_is_known(stage: Stage) -> None:
    seats = await both(stage)
    ann, bob = seats.of("ann"), seats.of("bob")
    assert ann.chromium.pid != bob.chromium.pid
    assert (ann.locale, bob.locale, seats.of() is bob) == (None, "de-DE", True)
    assert seats.act_as(None) == "bob"
    assert seats.of() is ann
    with pytest.raises(Failed, match="no user `carl`"):
        seats.of("carl")
    await seats.take_settled()
    for session in (ann, bob):
        await passed(session, {"act": "click", "selector": "#order"})
        await passed(session, {"act": "wait", "selector": "#out", "value": "418"})
        sent = await seats.take_settled()
        assert [(each.method, each.unsafe) for each in sent] == [("POST", True)], "it is told once, by its own browser"
    assert seats.routes[0].count == 2, "the answers to both browsers were changed"
    assert await seats.hold()
    assert ann.tab.held
    assert bob.tab.held
    await seats.release()
    assert {ann.tab.held, bob.tab.held} == {False}


async def test_a_checkpoint_has_all_pages_and_the_evidence_those_of_who_acts_first(stage: Stage) -> None:
    seats = await both(stage)
    before = [seats.of(user).chromium.pid for user in ("ann", "bob")]
    for user in ("ann", "bob"):
        await passed(seats.of(user), {"act": "type", "selector": CARD, "value": f"of {user}"})
    saved = await seats.save(10)
    assert len(saved.addresses) >= 2
    assert await seats.restore(None, 20, restart=False) == ()
    assert await seats.restore(saved, 30, restart=True) == ()
    assert not {*before} & {seats.of(user).chromium.pid for user in ("ann", "bob")}, "each browser is a new one"
    for user in ("ann", "bob"):
        held = await seats.of(user).tab.page.input_value(CARD)
        assert held == f"of {user}"
    seats.act_as("bob")
    folder = stage.folder / "evidence"
    folder.mkdir()
    found = await seats.evidence(Capture(), folder)
    assert found.user == "bob"
    assert "of bob" in (folder / "dom_snapshot.html").read_text("utf-8")
    names = {path.name for path in (folder / "users" / "ann").iterdir() if path.is_file()}
    assert names >= {"screenshot.png", "dom_snapshot.html", "network_logs.har", "console_logs.txt"}
    assert "of ann" in (folder / "users" / "ann" / "dom_snapshot.html").read_text("utf-8")
    assert not (folder / "users" / "bob").exists()
