"""An agent that does pages of MiniWoB++ by rules, as the module `brains` of an imported project.

Each rule makes all steps of a page from what the page asks (`asked`) and its tree of roles (`aria`).
"""

from __future__ import annotations

import re
from typing import Any

Steps = list[dict[str, Any]]
SUBMIT = {"act": "click", "selector": "#area button:text-is('Submit')"}
WIDGETS = {"text": "input[type=text]", "checkbox": "input[type=checkbox]", "radio": "input[type=radio]"}


def click(selector: str) -> dict[str, Any]:
    return {"act": "click", "selector": selector}


def fill(selector: str, value: str) -> dict[str, Any]:
    return {"act": "type", "selector": selector, "value": value}


def quoted(asked: str) -> list[str]:
    return re.findall(r'"(.*?)"', asked)


def nth(asked: str, what: str) -> int:
    found = re.search(rf"(\d+)(?:st|nd|rd|th) {what}", asked)
    assert found is not None, asked
    return int(found[1]) - 1


def button(asked: str, _: str) -> Steps:
    return [click(f"#area button:text-is({quoted(asked)[0]!r})")]


def link(asked: str, _: str) -> Steps:
    return [click(f"#area .alink:text-is({quoted(asked)[0]!r})")]


def named_buttons(asked: str, _: str) -> Steps:
    return [click(f"#area button:text-is({name!r})") for name in re.findall(r"button (\w+)", asked)]


def labelled(asked: str, _: str) -> Steps:
    named = asked.partition("Select ")[2].partition(" and click")[0]
    return [*(click(f"#area label:text-is({each!r})") for each in named.split(", ") if each != "nothing"), SUBMIT]


def dialog(asked: str, _: str) -> Steps:
    label = quoted(asked)[0]
    return [click(".ui-dialog-titlebar-close" if label == "x" else f".ui-dialog button:text-is({label!r})")]


def text(asked: str, _: str) -> Steps:
    word = quoted(asked)[0]
    word = word.upper() if "all upper case" in asked else word.lower() if "all lower case" in asked else word
    return [fill("#area input[type=text]", word), SUBMIT]


def password(asked: str, _: str) -> Steps:
    word = quoted(asked)[0]
    return [fill("#area input >> nth=0", word), fill("#area input >> nth=1", word), SUBMIT]


def login(asked: str, _: str) -> Steps:
    user, word = quoted(asked)
    return [fill("#username", user), fill("#password", word), click("#area button:text-is('Login')")]


def widget(asked: str, _: str) -> Steps:
    kind = quoted(asked)[0]
    return [click(f"#area {WIDGETS.get(kind, kind)} >> nth=0")]


def from_list(asked: str, _: str) -> Steps:
    name = asked.removeprefix("Select ").partition(" from")[0]
    return [{"act": "select", "selector": "#area select", "value": name}, SUBMIT]


def letters(_: str, aria: str) -> Steps:
    found = re.findall(r"- generic \[ref=e\d+\]: \"?(\w)\"?$", aria.partition("textbox")[0], re.MULTILINE)
    return [fill("#area input", "".join(found)), SUBMIT]


def arithmetic(_: str, aria: str) -> Steps:
    left, sign, right = re.search(r"(\d+) ([+x-]) (\d+) =", aria).groups()  # type: ignore[union-attr]
    one, two = int(left), int(right)
    return [fill("#area input", str({"+": one + two, "-": one - two, "x": one * two}[sign])), SUBMIT]


def algebra(_: str, aria: str) -> Steps:
    left, sign, right, sum_ = re.search(r"(\w+) ([+-]) (\w+) = (-?\d+)", aria).groups()  # type: ignore[union-attr]

    def holds(x: int) -> bool:
        one, two = (x if each == "x" else int(each) for each in (left, right))
        return (one + two if sign == "+" else one - two) == int(sum_)

    return [fill("#area input", str(next(x for x in range(-500, 500) if holds(x)))), SUBMIT]


def cells(aria: str) -> dict[str, str]:
    found = re.findall(r'cell "(.*?)"', aria)
    return dict(zip(found[::2], found[1::2], strict=True))


def table(asked: str, aria: str) -> Steps:
    label = asked.removeprefix("Enter the value of ").partition(" into")[0]
    return [fill("#area input", cells(aria)[label]), SUBMIT]


def table_of_two(_: str, aria: str) -> Steps:
    known, labels = cells(aria), re.findall(r'generic \[ref=e\d+\]: "(.*?):"', aria)
    return [*(fill(f"#area input >> nth={place}", known[name]) for place, name in enumerate(labels)), SUBMIT]


def spinner(asked: str, _: str) -> Steps:
    return [fill("#area input", asked.split()[1]), SUBMIT]


def word(asked: str, aria: str) -> Steps:
    (written,) = re.findall(r"paragraph \[ref=e\d+\]: (.*)", aria)
    return [fill("#area input", written.strip('"').split()[nth(asked, "word")].strip(".,")), SUBMIT]


def odd_or_even(_: str, aria: str) -> Steps:
    numbers = re.findall(r'generic \[ref=e\d+\]: "(-?\d+)"', aria)
    kinds = ["Odd" if int(each) % 2 else "Even" for each in numbers]
    return [*(click(f"#area .row >> nth={place} >> text={kind}") for place, kind in enumerate(kinds)), SUBMIT]


def sequence(asked: str, _: str) -> Steps:
    kind = "radio" if "radio" in asked else "checkbox"
    what = {"radio": "radio button", "checkbox": "checkbox"}[kind]
    boxes = "#area input[type=number], #area input[type=text]"
    box = fill(f":is({boxes}) >> nth={nth(asked, 'textbox')}", quoted(asked)[0])
    return [click(f"#area input[type={kind}] >> nth={nth(asked, what)}"), box, SUBMIT]


RULES = {
    "click-button": button, "unicode-test": button, "click-test": lambda *_: [click("#area button")],
    "click-test-2": named_buttons, "click-test-transfer": named_buttons, "click-button-sequence": named_buttons,
    "click-link": link, "click-tab-2-easy": link, "click-dialog": dialog, "click-dialog-2": dialog,
    "click-checkboxes": labelled, "click-checkboxes-large": labelled, "click-checkboxes-transfer": labelled,
    "click-option": labelled, "click-tab": lambda asked, _: [click(f"a:text-is('Tab #{asked.strip(' .')[-1]}')")],
    "focus-text": lambda *_: [click("#area input")],
    "focus-text-2": lambda asked, _: [click(f"#area input >> nth={nth(asked, 'input')}")],
    "enter-text": text, "enter-text-dynamic": text, "enter-text-2": text, "enter-password": password,
    "login-user": login, "click-widget": widget, "choose-list": from_list,
    "text-transform": letters, "simple-arithmetic": arithmetic, "simple-algebra": algebra, "read-table": table,
    "read-table-2": table_of_two, "use-spinner": spinner, "find-word": word,
    "odd-or-even": odd_or_even,
    "click-collapsible-nodelay": lambda *_: [click("#area h3"), click("#area button")], "form-sequence-2": sequence,
}  # fmt: skip
"""Page -> its rule."""


class Rules:
    """Opens the page, looks at it, and does what its rule says."""

    def __init__(self) -> None:
        self._steps: dict[str, Steps] = {}

    async def propose(self, plan: Any, history: Any, observe: Any) -> dict[str, Any] | None:
        name = plan.task_id.removeprefix("MINIWOB-").partition("[")[0]
        if not history:
            return {"act": "open", "url": f"http://miniwob.local/miniwob/{name}.html"}
        if plan.key not in self._steps:
            aria = (await observe()).aria.partition("Last reward")[0]
            asked = re.search(r"generic \[ref=e\d+\]: (.*)", aria)
            assert asked is not None, aria
            self._steps[plan.key] = RULES[name](asked[1].strip("'\"").replace('\\"', '"'), aria)
        done = len(history) - 1
        return self._steps[plan.key][done] if done < len(self._steps[plan.key]) else None
