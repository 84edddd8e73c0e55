"""The sentences of scripts."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.demo.models.brain import FOLDER, ScriptError, ScriptLine, all_scripts, read_line, read_script, script_for


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("open http://shop.local/", {"value": "http://shop.local/"}),
        ("click button 'Add to cart'", {"role": "button", "name": "Add to cart"}),
        ("click 'Add to cart'", {"name": "Add to cart"}),
        ("click link 'Stop' near '1234'", {"role": "link", "name": "Stop", "where": "near", "near": "1234"}),
        ("check checkbox 'Mine'", {"role": "checkbox", "name": "Mine"}),
        ("download link 'Receipt'", {"role": "link", "name": "Receipt"}),
        ("type '123 Main St' into textbox 'Street'", {"value": "123 Main St", "role": "textbox", "name": "Street"}),
        ("select 'a_b' from combobox 'Speed'", {"value": "a_b", "role": "combobox", "name": "Speed"}),
        ("upload 'files/mouse.png' to 'Photo'", {"value": "files/mouse.png", "name": "Photo"}),
        ("press Enter", {"value": "Enter"}),
        ("wait for 'Thank you'", {"value": "Thank you"}),
        ("remember a.b from cell '7777'", {"key": "a.b", "role": "cell", "name": "7777"}),
        ("remember id from term after 'Id'", {"key": "id", "role": "term", "where": "after", "near": "Id"}),
        ("call shop.get_order", {"value": "shop.get_order"}),
        ('call shop.get_order with {"id": 1}', {"value": "shop.get_order", "arguments": '{"id": 1}'}),
        ("give_up 'It is sold out.'", {"value": "It is sold out."}),
    ],
)
def test_a_line_says_what_to_do(text: str, parts: dict[str, str]) -> None:
    assert read_line(text) == ScriptLine(text.split(maxsplit=1)[0], text, **parts)


@pytest.mark.parametrize(
    "text", ["", "hover link 'Help'", "click", "click button Add to cart", "type 'x' into", "call it"]
)
def test_another_line_is_refused(text: str) -> None:
    with pytest.raises(ScriptError, match="no sentence of a script"):
        read_line(text)


def test_every_shipped_script_can_be_read(tmp_path: Path) -> None:
    assert {script.name for script in all_scripts()} == {path.stem for path in FOLDER.iterdir()}
    assert all(script.lines for script in all_scripts())


def test_a_script_is_chosen_by_its_goal_in_the_request() -> None:
    found = script_for(["Rules: ...", "goal: Buy a wireless\n  mouse for less than $30."])
    assert found is not None
    assert found.name == "buy-mouse"
    assert script_for(["Feed the cat."]) is None


def test_a_blank_of_a_goal_is_filled_in_from_the_request() -> None:
    found = script_for(["Put the Keychron K2 into the cart of http://shop.local/."])
    assert found is not None
    assert (found.name, found.goal) == ("put-into-cart", "Put the Keychron K2 into the cart")
    assert [line.text for line in found.lines[1:4]] == [
        "type 'Keychron K2' into searchbox 'Search'", "press Enter", "click link 'Keychron K2'",
    ]  # fmt: skip
    assert script_for(["Put the Logitech M185 into the cart"]) == next(
        s for s in all_scripts() if s.name == "fill-cart"
    )


def test_a_script_of_ones_own_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "help.yaml").write_text("goal: Read the help\nlines:\n  - open http://a.test/\n  - click link 'Help'\n")
    script = read_script(tmp_path / "help.yaml")
    assert (script.name, script.goal) == ("help", "Read the help")
    assert [line.verb for line in script.lines] == ["open", "click"]
