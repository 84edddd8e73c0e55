"""Where the keys of pyproject.toml stand, and what is said about values that come from elsewhere."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.model.settings import load_settings
from harness.model.settings_errors import SettingsError, place_of, places_of
from harness.spec.problems import JsonPath

TEXT = """\
# [tool.harness.comment]
[tool.harness]
isolation = "world" # isolation2 = 1
"quoted key" = 1
 indented.twice = 2

[tool.harness.text]
long = \"\"\"
[tool.harness.inside]
inside = 1
\"\"\"
after = '''one line'''
last = { inline = 1 }

[[tool.list]]
a = 1
[[ tool . list ]]
a = 2
[tool.list.sub]
b = 3
"""


def test_keys_and_tables_have_the_place_where_they_begin() -> None:
    places = places_of(TEXT)
    base: JsonPath = ("tool", "harness")
    assert places == {
        ("tool",): (2, 1),
        base: (2, 1),
        (*base, "isolation"): (3, 1),
        (*base, "quoted key"): (4, 1),
        (*base, "indented"): (5, 2),
        (*base, "indented", "twice"): (5, 2),
        (*base, "text"): (7, 1),
        (*base, "text", "long"): (8, 1),
        (*base, "text", "after"): (12, 1),
        (*base, "text", "last"): (13, 1),
        ("tool", "list"): (15, 1),
        ("tool", "list", 0): (15, 1),
        ("tool", "list", 0, "a"): (16, 1),
        ("tool", "list", 1): (17, 1),
        ("tool", "list", 1, "a"): (18, 1),
        ("tool", "list", 1, "sub"): (19, 1),
        ("tool", "list", 1, "sub", "b"): (20, 1),
    }
    assert place_of(places, (*base, "text", "last", "inline")) == (13, 1)
    assert place_of(places, ("project",)) is None


KEYS = st.sampled_from(["a", "b-c", "d_1", '"e f"', "'g'"])


@given(st.dictionaries(KEYS, st.dictionaries(KEYS, st.sampled_from(["1", '"x = 1"', "[1,\n2]", "{k = 2}"]))))
def test_every_place_is_that_of_a_value_of_the_document(tables: dict[str, dict[str, str]]) -> None:
    text = "".join(f"[{name}]\n" + "".join(f"{k} = {v}\n" for k, v in body.items()) for name, body in tables.items())
    document: Any = tomllib.loads(text)
    places = places_of(text)
    assert len(places) == len(tables) + sum(map(len, tables.values()))
    for path in places:
        value = document
        for part in path:
            value = value[part]


def test_a_file_that_is_no_toml_has_the_place_of_its_parser(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.harness\nx = 1\n", "utf-8")
    with pytest.raises(SettingsError, match=r"pyproject\.toml:1:14: Expected ']' at the end of a table declaration$"):
        load_settings(tmp_path)


def test_a_value_of_an_option_has_no_place_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.harness.serve]\nport = 1\nworkers = 'x'\n", "utf-8")
    with pytest.raises(SettingsError) as caught:
        load_settings(tmp_path, serve={"port": "y"})
    lines = str(caught.value).replace(str(tmp_path), "").splitlines()
    assert sorted(line.partition(": ")[0] for line in lines) == ["/pyproject.toml", "/pyproject.toml:3:1"]


def test_a_number_of_milliseconds_is_told_as_one(tmp_path: Path) -> None:
    service = '[tool.harness.services.a]\ncommand = ["x"]\nhealth = "http://a.test/"\nhosts = { "a.test" = "auto" }\n'
    (tmp_path / "pyproject.toml").write_text(f"{service}ready_timeout = 60000\n", "utf-8")
    with pytest.raises(SettingsError, match=r":5:1: .*ready_timeout: .*\(seconds, not milliseconds: write 60\)"):
        load_settings(tmp_path)
