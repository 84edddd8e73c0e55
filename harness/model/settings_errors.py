"""The errors in `[tool.harness]` of pyproject.toml, in the words of its file and with their places. Pure."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel

from harness.spec.habits import in_seconds, takes_seconds
from harness.spec.problems import JsonPath, Problem, did_you_mean

_SECRET_DEPTH = 3
"""The length of a place inside the table of a model or program; a shorter one is the whole table, with its secrets."""
_SAID = {
    "tuple_type": 'must be a list, as in ["..."]',
    "dict_type": "must be a table, as in { name = ... }",
    "too_short": "has too few entries",
}
"""pydantic's type of error -> a message in TOML's terms."""
_AT = re.compile(r" \(at line (\d+), column (\d+)\)$")
Place = tuple[int, int]
"""Line and column, from 1."""


class SettingsError(ValueError):
    """`[tool.harness]` has invalid values, or an option of the run or a variable does not fit it; all problems at once.

    A problem that belongs to no file is a text.
    """

    def __init__(self, *problems: Problem | str) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))


def problem(file: Path, places: Mapping[JsonPath, Place], model: type[BaseModel], found: Any) -> Problem:
    """The problem for an error of pydantic: place, key, what is expected and what was found.

    `places`: where the keys of the file stand (`places_of`); empty if the value does not come from the file.
    """
    path, message, inside = _told(model, found)
    table, loc = ("tool", "harness", "defaults"), found["loc"]
    if loc[:2] == ("defaults", 0) and (*table, 0) not in places:  # one table, and no list of them
        loc = ("defaults", *loc[2:])
    line, column = place_of(places, ("tool", "harness", *loc, *filter(None, inside.split(".")))) or (None, None)
    return Problem(str(file), line, column, path, message)


def syntax_problem(file: Path, error: tomllib.TOMLDecodeError) -> Problem:
    """The problem of a file that is no TOML; Python's parser writes the place into its message."""
    text = str(error)
    if place := _AT.search(text):
        return Problem(str(file), int(place[1]), int(place[2]), "", text[: place.start()])
    return Problem(str(file), None, None, "", text)


def _told(model: type[BaseModel], found: Any) -> tuple[str, str, str]:
    """The path of the table or value, the message, and the path inside of the value that it names."""
    place = found["loc"]
    *way, name = place or ("",)
    if found["type"] == "missing":
        return _dotted(way), f"the key `{name}` is missing", ""
    if found["type"] == "extra_forbidden":
        meant = did_you_mean(str(name), _known_keys(model, way))
        return _dotted(way), f"unknown key `{name}`{f' ({meant})' if meant else ''}", ""
    unsaid = ("browser_endpoint",), ("defaults",)  # the first may be secret, the second names the key itself
    value = "" if place[:1] in unsaid or _may_be_secret(place) else f" (found: {found['input']!r:.80})"
    said = _SAID.get(found["type"], found["msg"].removeprefix("Value error, "))
    path = _dotted(place).replace("harness.defaults.0", "harness.defaults")
    inner, colon, rest = said.partition(": ")
    if inner.startswith("."):  # the message names the key inside of the value itself
        return path + inner, f"{rest}{value}" if colon else value, inner
    return path, f"{said}{value}{_unit(found, model, place)}", ""


def _unit(found: Any, model: type[BaseModel], place: JsonPath) -> str:
    """A hint for a number of milliseconds."""
    hint = in_seconds(found["input"], found.get("ctx", {}).get("le"))
    field = _fields_at(model, place[:-1]).get(place[-1]) if hint else None
    return f" ({hint})" if field is not None and takes_seconds(field.description) else ""


def _dotted(way: Sequence[str | int]) -> str:
    return ".".join(["tool", "harness", *map(str, way)])


def _may_be_secret(place: Sequence[str | int]) -> bool:
    """Whether what stands at a place may be secret: keys of models, variables of programs, whole tables of them."""
    if not place:
        return True  # all settings
    if place[0] == "models":
        return len(place) < _SECRET_DEPTH or place[-1] in ("key", "base_url")
    programs = place[0] in ("tools", "agents", "services")
    return programs and (len(place) < _SECRET_DEPTH or place[2] in ("url", "headers", "environment", "options"))


def _known_keys(model: Any, way: Sequence[str | int]) -> Iterator[str]:
    """The keys of the table at a path in the settings; `root` is no key of the file."""
    return (name for name in _fields_at(model, way) if name != "root")


def _fields_at(model: Any, way: Sequence[str | int]) -> Mapping[Any, Any]:
    """The fields of the table at a path in the settings, by their names."""
    for name in way:
        field = getattr(model, "model_fields", {}).get(name)
        model = field.annotation if field is not None else (get_args(model) or (None,))[-1]
    fields: Mapping[Any, Any] = getattr(model, "model_fields", {})
    return fields


# Where the keys of a TOML file stand: Python's parser does not tell.

_NAME = r"""(?:"[^"\n]*"|'[^'\n]*'|[A-Za-z0-9_-]+)"""
_NAMES = rf"{_NAME}(?:[ \t]*\.[ \t]*{_NAME})*"
_TABLE = re.compile(rf"[ \t]*(?P<open>\[\[?)[ \t]*(?P<names>{_NAMES})[ \t]*\]")
_KEY = re.compile(rf"[ \t]*(?P<names>{_NAMES})[ \t]*=")
_LONG_QUOTES = re.compile(r'"""|' + "'''")


def places_of(text: str) -> dict[JsonPath, Place]:
    """Path -> where its key, or the header of its table, stands in a valid TOML file.

    A table without a header of its own stands where the first of its keys or tables does. Keys of inline tables are
    not told apart from the key of the whole table.
    """
    found: dict[JsonPath, Place] = {}
    table: JsonPath = ()
    inside = ""
    """The quotes of the text of several lines that the line is in."""
    for number, line in enumerate(text.splitlines(), 1):
        header, key = (None, None) if inside else (_TABLE.match(line), _KEY.match(line))
        if header:
            table = _entry(found, _split(header["names"]), several=header["open"] == "[[")
            _put(found, table, (number, header.start("open") + 1))
        elif key:
            _put(found, (*table, *_split(key["names"])), (number, key.start("names") + 1))
        for quotes in _LONG_QUOTES.findall(line):
            inside = "" if quotes == inside else inside or quotes
    return found


def _put(found: dict[JsonPath, Place], path: JsonPath, place: Place) -> None:
    for end in range(1, len(path) + 1):
        found.setdefault(path[:end], place)


def _split(names: str) -> JsonPath:
    return tuple(each.strip("\"'") for each in re.findall(_NAME, names))


def _entry(found: Mapping[JsonPath, Place], path: JsonPath, *, several: bool) -> JsonPath:
    """The path of the table that a header begins; that of a list of tables ends in its number."""
    whole: JsonPath = ()
    for place, name in enumerate(path):
        whole = (*whole, name)
        count = sum(each[:-1] == whole and isinstance(each[-1], int) for each in found if each)
        last = place == len(path) - 1
        if (last and several) or count:
            whole = (*whole, count if last and several else count - 1)
    return whole


def place_of(places: Mapping[JsonPath, Place], path: JsonPath) -> Place | None:
    """Where the value at a path stands, or else the nearest table around it; None if the file has neither."""
    for end in range(len(path), 0, -1):
        if path[:end] in places:
            return places[path[:end]]
    return None
