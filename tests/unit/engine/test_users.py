"""Several users: who acts, whose page a criterion reads, and whose page is renewed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.model.record import TaskResult
from harness.recovery.failure import Failed, Failure, Passed
from harness.spec.page_handlers import Handler
from tests.unit.fakes import FakeSession, Theatre, post, sending

USERS: dict[str, Any] = {"ann": {}, "bob": {}}
OPEN = {"act": "open", "url": "http://shop.local/"}
READ = {"of_bob": "text('#w')", "of_ann": "text('#w', as='ann')"}
CRASH = Failure("PAGE_CRASHED", "the page is gone", tainted=True)


class FakeSeats(FakeSession):
    """Ann is the session itself; bob has one of his own."""

    def __init__(self, clock: Any) -> None:
        super().__init__(clock)
        self.seats: dict[str, FakeSession] = {"ann": self, "bob": FakeSession(clock)}
        self.acting = "ann"

    def act_as(self, user: str | None) -> str | None:
        before, self.acting = self.acting, user or "ann"
        return before

    def of(self, user: str | None = None) -> Any:
        return self.seats[user or self.acting]


def theatre_of_two() -> tuple[Theatre, FakeSession, FakeSession]:
    theatre = Theatre()
    theatre.session = seats = FakeSeats(theatre.clock)
    return theatre, seats, seats.seats["bob"]


def play(theatre: Theatre, *steps: dict[str, Any], **spec: Any) -> TaskResult:
    return asyncio.run(theatre.play(steps=list(steps), users=USERS, **spec))


def acts(session: FakeSession) -> list[str]:
    return [step.target or step.act for _, step, *_ in session.acts]


def test_each_acts_on_pages_of_their_own_and_criteria_read_those_of_who_acts() -> None:
    theatre, ann, bob = theatre_of_two()
    ann.page, bob.page = {"visible #a": True, "text #w": "ann"}, {"visible #b": True, "text #w": "bob"}
    result = play(
        theatre,
        {"act": "click", "selector": "#a", "when": "visible('#a')"},
        {"act": "click", "selector": "#b", "as": "bob", "when": "visible('#b') && visible('#a', as='ann')"},
        {"act": "click", "selector": "#c", "as": "bob", "remember": READ},
        success_criteria=["text('#w') == 'ann' && text('#w', as='bob') == 'bob'"],
    )  # fmt: skip
    assert (result.final_state, acts(ann), acts(bob)) == ("completed", ["#a"], ["#b", "#c"])
    assert theatre.world.entries_ == {"of_bob": "bob", "of_ann": "ann"}


def test_a_handler_is_done_by_whoever_acts() -> None:
    theatre, ann, bob = theatre_of_two()
    shown = [True]
    bob.page = {"visible #banner": lambda _: shown.pop() if shown else False}
    ann.page = {"visible #banner": False}
    handler = Handler.model_validate({"when": "visible('#banner')", "steps": ({"act": "click", "selector": "#away"},)})
    play(
        theatre,
        {"act": "click", "selector": "#a"},
        {"act": "click", "selector": "#b", "as": "bob"},
        handlers=(handler,),
    )
    assert (acts(ann), acts(bob)) == (["#a"], ["#away", "#b"])


def test_the_page_that_was_lost_is_renewed_and_no_other() -> None:
    """Ann's step reads the page of bob, which is gone."""
    theatre, ann, bob = theatre_of_two()
    lost = [CRASH]

    def visible(_: float) -> bool:
        if lost:
            raise Failed(lost.pop())
        return True

    bob.page = {"visible #b": visible}
    result = play(theatre, OPEN, {"act": "assert", "expr": "visible('#b', as='bob')"})
    assert (result.final_state, ann.renewed, bob.renewed) == ("completed", 0, 1)


def test_a_page_that_proves_nothing_decides_no_criterion_of_another_user() -> None:
    theatre, ann, bob = theatre_of_two()
    lacking = Failure("NET_CONNECTION_RESET", "its script never came")

    bob.lacking = lacking
    bob.page, ann.page = {"visible #b": False}, {"visible #b": False}
    passed = play(theatre, OPEN, success_criteria=["NOT[visible('#b')]"])
    assert passed.final_state == "completed"
    failed = play(theatre, OPEN, success_criteria=["NOT[visible('#b', as='bob')]"])
    assert failed.failure is not None
    assert (failed.failure.code, failed.failure.details["user"]) == ("NET_CONNECTION_RESET", "bob")


def test_no_field_is_filled_again_whose_filling_was_a_write_although_another_user_has_opened_a_page_since() -> None:
    theatre, ann, bob = theatre_of_two()
    typed = {"act": "type", "selector": "#t", "value": "x", "effect": "write"}
    steps = (OPEN, typed, {**OPEN, "as": "bob"}, {"act": "click", "selector": "#b", "as": "bob"})
    bob.script = [Passed(), Failure("BROWSER_CRASHED", "gone", tainted=True)]
    play(theatre, *steps, checkpoints=[3])
    (why,) = ann.unfilled
    assert why is not None
    assert "step 1 (type #t = 'x' as ann)" in why


def test_the_evidence_is_first_that_of_the_user_whose_page_a_criterion_names() -> None:
    theatre, ann, bob = theatre_of_two()
    ann.page, bob.page = {"visible #b": True}, {"visible #b": False}
    result = play(theatre, OPEN, success_criteria=["visible('#b') && visible('#b', as='bob')"])
    assert result.failure is not None
    assert (result.failure.code, result.failure.details["user"]) == ("CRITERIA_UNMET", "bob")
    assert isinstance(theatre.session, FakeSeats)
    assert theatre.session.acting == "bob"
    assert "of bob" in result.failure.message


@pytest.mark.parametrize(("user", "renewed"), [("ann", False), ("bob", True)])
def test_an_address_that_a_write_produced_is_barred_for_its_user_alone(user: str, renewed: bool) -> None:
    """Ann has posted a form whose answer is shown at the address at which bob has opened a page of his own."""
    theatre, ann, bob = theatre_of_two()
    url = "http://shop.local/order"
    ann.renewed_at = bob.renewed_at = (url,)
    ann.user, bob.user = "ann", "bob"
    ann.script = [sending(post(url, page=True))]
    seat = {"ann": ann, "bob": bob}[user]
    seat.script = [*seat.script, *([Passed()] if user == "bob" else []), CRASH]
    opened = {"act": "open", "url": url, "as": "bob"}
    play(theatre, {"act": "submit", "selector": "#pay"}, opened, {"act": "hover", "selector": "#x", "as": user})
    assert [why is None for why in seat.barred] == [renewed]
