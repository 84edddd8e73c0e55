"""The monkey agent: random clicks and typing, the same for the same seed. A site only has to survive it."""

from __future__ import annotations

import re
from random import Random
from urllib.parse import urljoin, urlsplit

from harness.agents.tools import literal
from harness.agents.view import settled
from harness.model.plan import Plan
from harness.model.ports import Observation, Observe
from harness.model.record import History
from harness.model.snapshot import PageElement, elements
from harness.recovery.catalog import Family
from harness.recovery.failure import Failed, Failure
from harness.spec.names import names
from harness.spec.step_keys import Option
from harness.spec.steps import Check, Click, Open, Select, Step, Type, Uncheck

_WORDS = ("tea", "Zoë", "42", "-1", "0", "O'Neill", "<b>", "a" * 60, "%", "ada@example.org", "2026-02-30", "ß ö 茶")
_NUMBERS = (-1, 0, 1, 2, 7, 99999)
_WEB = re.compile(r"https?://[^\s'\"<>]+")
_ERROR_TITLE = r"(?i)^(5\d\d\b|internal server error|bad gateway|service unavailable|gateway time-?out)"


class Monkey:
    """Ends after `steps` proposals, or at an error page: then the success criteria are judged.

    It begins at the page that `home` names. It follows no link out of `allowed_domains` (without any: out of the host
    where it began).
    """

    def __init__(self, steps: int = 30, error_title: str = _ERROR_TITLE, quiet: float = 0.5) -> None:
        """`error_title`: regular expression for the titles of error pages.

        `quiet`: seconds; a page that has looked the same for so long is complete. Otherwise a choice would depend on
        chance.
        """
        if not isinstance(steps, int) or steps < 1:
            raise ValueError(f"`steps` must be a whole number from 1, not {steps!r}")
        self._steps = steps
        self._error_title = re.compile(error_title)
        self._quiet = quiet

    async def propose(self, plan: Plan, history: History, observe: Observe) -> Step | None:
        """The next step; None at the end. Raises Failed if the site failed in the last step."""
        if history and (failure := _of_the_site(history[-1].failure)):
            raise Failed(failure)
        if len(history) >= self._steps:
            return None
        if not history:
            return _go_home(plan)
        seen = await settled(observe, self._quiet)
        if self._error_title.search(seen.title):
            return None
        return _choice(plan, history, seen)


def home(plan: Plan) -> str:
    """The page where the monkey begins, and to which it returns. Raises Failed if the task names none."""
    given = plan.spec.inputs.get("url")
    if isinstance(given, str):
        return given
    if found := _WEB.search(plan.spec.goal):
        return found[0].rstrip(".,;:)")
    opened = (step.url for step in plan.steps if isinstance(step, Open) and "${" not in step.url)
    if url := next((url for url in opened if plan.base_url or _WEB.match(url)), None):
        return url
    if domains := names(plan.spec.allowed_domains):
        return f"http://{domains[0]}/"
    if plan.base_url:
        return "/"
    message = "the monkey has no page to begin with: give the task `inputs: {url: ...}` or a URL in its `goal`"
    raise Failed(Failure("AGENT_FAILED", message))


def _go_home(plan: Plan) -> Step:
    return Open(url=literal(home(plan)), note="home")


def _of_the_site(failure: Failure | None) -> Failure | None:
    """The failure if the site caused it. An element that is gone, covered or slow is no fault of the site."""
    if failure is None:
        return None
    return failure if failure.family is Family.NETWORK or failure.code == "PAGE_UNRESPONSIVE" else None


def _choice(plan: Plan, history: History, seen: Observation) -> Step:
    random = Random(f"{plan.spec.seed}:{len(history)}")
    tried = {record.step.note for record in history[-2:] if not record.passed}
    usable = [each for each in elements(seen.aria) if _usable(each, plan, seen) and literal(str(each)) not in tried]
    if not usable or not seen.url.startswith("http"):
        return _go_home(plan)
    return _act(random.choice(usable), random)


def _usable(element: PageElement, plan: Plan, seen: Observation) -> bool:
    if not element.enabled or element.role not in _ACTS:
        return False
    return element.role != "link" or _leads_to_site(element.url, plan, seen)


def _leads_to_site(url: str | None, plan: Plan, seen: Observation) -> bool:
    if url is None:
        return True
    target = urlsplit(urljoin(seen.url, url))
    if target.scheme not in ("http", "https"):
        return False
    allowed = plan.spec.allowed_domains or tuple(filter(None, (urlsplit(home(plan)).hostname,)))
    host = target.hostname or ""
    here = urlsplit(seen.url).hostname
    names = [name.removeprefix("*.") for name in allowed] or [here or ""]
    return any(host == name or host.endswith(f".{name}") for name in names)


def _act(element: PageElement, random: Random) -> Step:
    selector, note = element.selector, literal(str(element))
    match element.role:
        case "textbox" | "searchbox":
            return Type(selector=selector, value=literal(random.choice(_WORDS)), note=note)
        case "spinbutton":
            return Type(selector=selector, value=random.choice(_NUMBERS), note=note)
        case "combobox" | "listbox" if element.options:
            return Select(selector=selector, value=Option(index=random.randrange(element.options)), note=note)
        case "checkbox":
            return (Uncheck if element.checked else Check)(selector=selector, note=note)
        case _:
            return Click(selector=selector, note=note)


_FORMS = ("textbox", "searchbox", "spinbutton", "combobox", "listbox", "checkbox")
_ACTS = frozenset((*_FORMS, "link", "button", "radio", "switch", "tab", "menuitem"))
