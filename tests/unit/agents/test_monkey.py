"""The monkey's choices: random, repeatable, inside of the site."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from harness.agents.monkey import Monkey, home
from harness.model.ports import Observation
from harness.recovery.failure import Failed, Failure
from harness.spec.steps import Check, Click, Open, Select, Type, Uncheck
from harness.spec.task import TaskSpec

MANY = "\n".join(f'- button "b{number}" [ref=e{number}]' for number in range(50))
SHOP = "http://shop.local/"


def plan(**spec: Any) -> Any:
    base_url = spec.pop("base_url", None)
    made = TaskSpec.model_validate({"task_id": "T", "goal": f"Break {SHOP}.", **spec})
    return SimpleNamespace(spec=made, steps=made.steps, base_url=base_url)


def record(step: Any = None, failure: Failure | None = None) -> Any:
    return SimpleNamespace(step=step or Open(url=SHOP, note="home"), passed=failure is None, failure=failure)


def choose(aria: str, history: Any = None, monkey: Monkey | None = None, **given: Any) -> Any:
    at = {"url": SHOP, "title": "Shop", **given.pop("at", {})}

    async def observe(*, screenshot: bool = False) -> Observation:
        return Observation(aria=aria, **at)

    history = (record(),) if history is None else history
    return asyncio.run((monkey or Monkey(quiet=0)).propose(plan(**given), history, observe))


def test_it_begins_at_home() -> None:
    assert choose(MANY, ()) == Open(url=SHOP, note="home")
    assert home(plan(inputs={"url": "http://bank.local/"})) == "http://bank.local/"
    bank, relative = {"act": "open", "url": "http://bank.local/"}, {"act": "open", "url": "/cards"}
    memory = {"act": "open", "url": "http://${memory.host}/"}
    assert home(plan(goal="nowhere", steps=[memory, relative, bank], allowed_domains=["gov.local"])) == bank["url"]
    assert home(plan(goal="nowhere", steps=[relative], base_url=SHOP)) == "/cards"
    assert home(plan(goal="nowhere", steps=[relative], allowed_domains=["*.gov.local"])) == "http://gov.local/"
    assert home(plan(goal="nowhere", base_url=SHOP)) == "/"


def test_without_a_page_to_begin_with_it_says_so_at_once() -> None:
    with pytest.raises(Failed, match="the monkey has no page to begin with: give the task") as caught:
        choose(MANY, (), goal="nowhere")
    assert caught.value.failure.code == "AGENT_FAILED"


def test_the_choice_depends_on_the_seed_and_the_number_of_steps_alone() -> None:
    def story(seed: int) -> list[Any]:
        return [choose(MANY, (record(),) * count, seed=seed) for count in range(1, 12)]

    assert story(1) == story(1)
    assert story(1) != story(2)
    assert len({step.selector for step in story(1)}) > 3


@pytest.mark.parametrize(
    ("aria", "kind"),
    [
        ('- textbox "Name" [ref=e1]', Type),
        ('- searchbox "Search" [ref=e1]', Type),
        ('- spinbutton "Quantity" [ref=e1]', Type),
        ('- checkbox "Gift" [ref=e1]', Check),
        ('- checkbox "Gift" [checked] [ref=e1]', Uncheck),
        ('- combobox "Size" [ref=e1]:\n  - option "S"\n  - option "M"', Select),
        ('- radio "Card" [ref=e1]', Click),
        ('- link "Home" [ref=e1]:\n  - /url: /', Click),
    ],
)
def test_every_kind_of_element_has_its_act(aria: str, kind: type) -> None:
    step = choose(aria)
    assert isinstance(step, kind)
    assert step.selector == "aria-ref=e1"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "aria",
    [
        "",
        '- heading "Nothing to do" [ref=e1]',
        '- button "Pay" [disabled] [ref=e1]',
        '- link "Away" [ref=e1]:\n  - /url: http://elsewhere.example/',
        '- link "Mail" [ref=e1]:\n  - /url: mailto:a@b.example',
    ],
)
def test_it_goes_home_where_there_is_nothing_for_it(aria: str) -> None:
    assert choose(aria) == Open(url=SHOP, note="home")


def test_it_goes_home_from_the_browsers_error_page() -> None:
    assert choose(MANY, at={"url": "chrome-error://chromewebdata/"}) == Open(url=SHOP, note="home")


def test_links_to_allowed_domains_and_below_are_followed() -> None:
    aria = '- link "Bank" [ref=e1]:\n  - /url: http://my.bank.local/x'
    assert isinstance(choose(aria, allowed_domains=["shop.local", "bank.local"]), Click)
    assert isinstance(choose(aria, allowed_domains=["shop.local"]), Open)


def test_an_element_that_failed_is_left_alone_for_a_while() -> None:
    failed = record(Click(selector="aria-ref=e1", note='button "A"'), Failure("ELEMENT_COVERED", "covered"))
    both = '- button "A" [ref=e1]\n- button "B" [ref=e2]'
    chosen = {choose(both, (record(), failed), seed=seed).selector for seed in range(20)}
    assert chosen == {"aria-ref=e2"}


def test_it_ends_after_its_steps_and_on_an_error_page() -> None:
    assert choose(MANY, (record(),) * 3, Monkey(steps=3, quiet=0)) is None
    assert choose(MANY, at={"title": "500 Internal Server Error"}) is None
    assert choose(MANY, at={"title": "501 ways to cook"}, monkey=Monkey(error_title="Oops", quiet=0)) is not None
    assert choose(MANY, at={"title": "Oops"}, monkey=Monkey(error_title="Oops", quiet=0)) is None


@pytest.mark.parametrize("code", ["HTTP_SERVER_ERROR", "NET_EMPTY_RESPONSE", "PAGE_UNRESPONSIVE"])
def test_what_the_site_did_wrong_is_told(code: str) -> None:
    with pytest.raises(Failed) as caught:
        choose(MANY, (record(failure=Failure(code, "the site's")),))
    assert caught.value.failure.code == code


def test_a_slow_element_is_no_fault_of_the_site() -> None:
    assert choose(MANY, (record(failure=Failure("STEP_TIMEOUT", "slow")),)) is not None


@pytest.mark.parametrize("steps", [0, -1, "many"])
def test_steps_that_make_no_sense_are_refused(steps: Any) -> None:
    with pytest.raises(ValueError, match="`steps` must be a whole number from 1"):
        Monkey(steps=steps)


def test_it_waits_until_the_page_keeps_still() -> None:
    growing = [MANY[:100], MANY[:200], MANY, MANY, ""]
    looks: list[str] = []

    async def observe(*, screenshot: bool = False) -> Observation:
        looks.append(growing[len(looks)])
        return Observation(url=SHOP, title="Shop", aria=looks[-1])

    asyncio.run(Monkey(quiet=0).propose(plan(), (record(),), observe))
    assert looks == growing[:4]


def test_a_page_that_never_keeps_still_is_taken_as_it_is() -> None:
    looks: list[str] = []

    async def observe(*, screenshot: bool = False) -> Observation:
        looks.append(f'- button "{len(looks)}" [ref=e{len(looks)}]')
        return Observation(url=SHOP, title="Shop", aria=looks[-1])

    step = asyncio.run(Monkey(quiet=0).propose(plan(), (record(),), observe))
    assert isinstance(step, Click)
    assert len(looks) == 11
