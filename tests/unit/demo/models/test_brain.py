"""What a model does next, from the request alone."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.demo.models import reply
from harness.demo.models.brain import (
    MODELS,
    Move,
    PageSnapshot,
    TaskScript,
    all_scripts,
    next_move,
    past_steps,
    progress,
    read_line,
)
from harness.demo.models.protocol import Function, PastCall, Question

GOAL = "goal: Return the defective mouse of order O-10001 and get the money back."
ORDERS = """\
- main [ref=e1]:
  - heading "Your orders" [ref=e2]
  - link "O-10001" [ref=e3]
  - link "Return item" [ref=e4]
  - combobox "Reason" [ref=e5]
"""
OPENED = "1. open http://shop.local/orders -> passed"
CHOSEN = '2. click link "O-10001" -> passed'


def ask(*lines: str, model: str = "scripted-fast", seed: int = 0, page: str = ORDERS, **more: object) -> Move:
    question = Question(model, [GOAL, "\n".join(lines), page], seed=seed, **more)  # type: ignore[arg-type]
    return next_move(MODELS[model], question)


def test_it_begins_with_the_first_line() -> None:
    assert ask() == Move("open", "Next: open http://shop.local/orders.", value="http://shop.local/orders")


def test_it_goes_on_after_the_lines_that_passed_and_finds_the_ref_on_the_page() -> None:
    move = ask(OPENED)
    assert (move.verb, move.element, move.ref) == ("click", 'link "O-10001"', "e3")
    assert ask(OPENED, CHOSEN).ref == "e4"
    assert ask(OPENED, CHOSEN, page=ORDERS.replace("e4", "f7e9")).ref == "f7e9"


def test_a_line_that_failed_is_tried_again_three_times_and_then_it_gives_up() -> None:
    failed = '2. click link "O-10001" -> failed: STEP_TIMEOUT'
    assert ask(OPENED, failed).ref == "e3"
    assert ask(OPENED, failed, failed).ref == "e3"
    assert ask(OPENED, failed, failed, failed).verb == "give_up"


def test_it_looks_and_waits_for_an_element_that_is_not_there_and_then_gives_up() -> None:
    waited = "2. wait 1 s -> passed"
    moves = [ask(OPENED, *[waited] * times, page="").verb for times in range(4)]
    assert moves == ["wait_a_second", "wait_a_second", "wait_a_second", "give_up"]
    assert ask(OPENED, page="(left out: 20 of 30 lines)").verb == "look"


def test_it_waits_only_for_a_text_that_is_not_there_yet() -> None:
    done = [OPENED, CHOSEN, '3. click link "Return item" -> passed', '4. select combobox "Reason" -> passed']
    done += ['5. type textbox "What happened?" -> passed', '6. upload button "Photo (optional)" -> passed']
    done += ['7. click button "Request return" -> passed', '8. click link "See its state" -> passed']
    assert (ask(*done).verb, ask(*done).value) == ("wait", "approved")
    assert ask(*done, page="- status [ref=e1]: approved").verb == "wait_a_second"


def test_the_calls_of_a_dialogue_count_as_its_history() -> None:
    calls = [PastCall("browser_navigate", '{"url": "http://shop.local/orders"}')]
    assert ask(calls=calls).ref == "e3"
    calls.append(PastCall("browser_click", '{"element": "link \\"O-10001\\"", "ref": "e3"}', succeeded=False))
    assert ask(calls=calls).ref == "e3"


def test_it_goes_on_where_somebody_else_has_stopped_whose_steps_name_nothing() -> None:
    move = ask("1. open #home -> passed", "2. click #order -> passed", page='- combobox "Reason" [ref=e5]')
    assert (move.verb, move.ref, move.value) == ("select", "e5", "defective")


def test_a_shortened_history_is_found_in_the_script() -> None:
    """The login comes three times in it: only the steps around it tell which one it is."""
    goal = "Activate the new card 7777, deactivate the old card 1234"
    lines = ["(30 earlier steps are not told)", "36. open http://util.local/autopay -> passed"]
    lines += ['37. type textbox "User name" -> passed', '38. type textbox "Password" -> passed']
    lines += ["39. invalid -> failed: AGENT_INVALID_STEP", '40. click button "Log in" -> passed']
    page = '- button "Change card" [ref=e1]'
    question = Question("scripted-fast", [goal, "\n".join(lines), page])
    assert next_move(MODELS["scripted-fast"], question).element == 'button "Change card"'


def test_it_is_done_after_the_last_line() -> None:
    script = next(script for script in all_scripts() if script.name == "return-mouse")
    assert (
        ask(
            *[f"{number}. {line.text.replace(chr(39), '')} -> passed" for number, line in enumerate(script.lines, 1)]
        ).verb
        == "done"
    )


def test_without_a_script_it_gives_up_and_says_which_it_knows() -> None:
    move = next_move(MODELS["scripted-fast"], Question("scripted-fast", ["Feed the cat."]))
    assert move.verb == "give_up"
    assert "Buy a wireless mouse" in move.value


def test_the_clumsy_one_makes_a_mistake_first_and_then_does_it_right() -> None:
    wrong = ask(OPENED, model="scripted-clumsy")
    assert wrong.element == 'link "O-10001"'
    assert wrong.ref != "e3"
    assert ask(OPENED, "2. invalid -> failed: AGENT_INVALID_STEP", model="scripted-clumsy").ref == "e3"


def test_the_weak_one_gives_up_on_long_tasks() -> None:
    goal = "Activate the new card 7777, deactivate the old card 1234"
    script = next(script for script in all_scripts() if script.goal == goal)
    lines = [
        f"{number}. {line.text.replace(chr(39), '')} -> passed" for number, line in enumerate(script.lines[:12], 1)
    ]
    question = Question("scripted-weak", [goal, "\n".join(lines)])
    assert next_move(MODELS["scripted-weak"], question) == Move(
        "give_up", "This is longer than I can follow.", value="This is longer than I can follow."
    )
    assert next_move(MODELS["scripted-fast"], question).verb == "open"


@given(seed=st.integers(0, 2**32), done=st.integers(0, 2), model=st.sampled_from(sorted(MODELS)))
def test_the_same_request_gets_the_same_answer(seed: int, done: int, model: str) -> None:
    told = [OPENED, CHOSEN][:done]
    assert ask(*told, model=model, seed=seed) == ask(*told, model=model, seed=seed)


def function(name: str, required: Sequence[str] = (), **properties: object) -> Function:
    return Function(name, {"type": "object", "properties": properties, "required": list(required)})


TEXT = {"type": "string"}


@pytest.mark.parametrize(
    ("move", "tool", "arguments"),
    [
        (
            Move("click", "", 'link "A"', "e1"),
            function("browser_click", element=TEXT, target=TEXT),
            {"element": 'link "A"', "target": "e1"},
        ),
        (Move("click", "", 'link "A"', "e1"), function("browser_click", ref=TEXT, button=TEXT), {"ref": "e1"}),
        (Move("type", "", "", "e1", "x"), function("browser_type", text=TEXT, ref=TEXT), {"text": "x", "ref": "e1"}),
        (
            Move("select", "", "", "e1", "x"),
            function("browser_select_option", values={"type": "array"}),
            {"values": ["x"]},
        ),
        (Move("select", "", "", "e1", "x"), function("browser_select_option", value={"anyOf": [TEXT]}), {"value": "x"}),
        (Move("check", "", "", "e1"), function("browser_click", ref=TEXT), {"ref": "e1"}),
        (Move("wait_a_second", ""), function("browser_wait_for", text=TEXT, time={"type": "number"}), {"time": 1.0}),
        (Move("look", "", value="Help"), function("look", find=TEXT), {"find": "Help"}),
        (
            Move("look", "", value="Help"),
            function("browser_wait_for", text=TEXT, time={"type": "number"}),
            {"time": 1.0},
        ),
        (
            Move("remember", "", "term", "e1", key="a"),
            function("remember", key=TEXT, element=TEXT, target=TEXT),
            {"key": "a", "element": "term", "target": "e1"},
        ),
        (Move("done", "All done."), function("done", answer=TEXT), {"answer": "All done."}),
        (Move("give_up", "No", value="No"), function("give_up", reason=TEXT), {"reason": "No"}),
        (
            Move("press", "", value="Enter"),
            function("browser_press_key", ["key", "times"], key=TEXT, times={"type": "integer"}),
            {"key": "Enter", "times": 0},
        ),
        (
            Move("open", "", value="u"),
            function("browser_navigate", ["url", "how"], url=TEXT, how={"enum": ["new", "same"]}),
            {"url": "u", "how": "new"},
        ),
    ],
)
def test_the_arguments_are_those_that_the_tool_asks_for(move: Move, tool: Function, arguments: object) -> None:
    answer = reply(move, Question("scripted-fast", [], [tool]))
    assert (answer.function, answer.arguments) == (tool.name, arguments)


def test_without_a_tool_for_it_the_model_says_it_in_words() -> None:
    answer = reply(Move("click", "Next: click 'A'."), Question("scripted-fast", [], [function("done")]))
    assert (answer.text, answer.function) == ("Next: click 'A'.", None)


CALL = Move("call", "Next: call shop.get_order.", value="shop.get_order", arguments='{"id": "O-1"}')


def test_a_tool_of_a_server_is_called_as_it_is_offered() -> None:
    question = Question("m", [], [Function("give_up", {}), Function("shop__get_order", {})])
    assert (reply(CALL, question).function, reply(CALL, question).arguments) == ("shop__get_order", {"id": "O-1"})
    refused = reply(CALL, Question("m", [], [Function("give_up", {})]))
    assert (refused.function, refused.arguments) == ("give_up", {"reason": "I am not offered shop.get_order."})
    assert reply(CALL, Question("m", [])).function is None


def test_a_line_that_calls_a_tool_is_known_in_the_history() -> None:
    lines = [read_line(f"call shop.{name}_order with {{}}") for name in ("get", "place")]
    script = TaskScript("s", "g", lines)
    past = past_steps(Question("m", ['0. tool shop.get_order {"id": "O-1"} -> passed; answered {}']))
    assert progress(script, past, PageSnapshot("")).done == 1
    assert progress(script, [], PageSnapshot("")).done == 0
