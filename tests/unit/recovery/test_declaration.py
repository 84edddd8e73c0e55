"""Models that are built when they are used behave as those that pydantic builds at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from harness.recovery.declaration import BuiltLater, ChosenBy, Declaration, Table


class Square(Declaration):
    kind: Literal["square"] = "square"
    sides: tuple[float, ...] = ()


class Circle(Declaration):
    kind: Literal["circle"] = "circle"
    radius: int = Field(ge=1)


OURS = TypeAdapter[Any](list[Annotated[Square | Circle, ChosenBy("kind")]])
THEIRS = TypeAdapter[Any](list[Annotated[Square | Circle, Field(discriminator="kind")]])
TEXTS = [
    '[{"kind": "square", "sides": [1, 2.5]}, {"kind": "circle", "radius": 2}]',
    '[{"kind": "circle", "radius": 1e400}]',
    '[{"kind": "circle", "radius": 0, "colour": "red"}, {"kind": "oval"}, {"radius": 1}, 7]',
    '[{"kind": "circle", "radius": "3"}, {"kind": "square", "sides": ["4"]}]',
]


def outcome(adapter: TypeAdapter[Any], text: str, strict: bool) -> Any:
    try:
        return adapter.validate_json(text, strict=strict)
    except ValidationError as error:
        return error.errors(include_url=False)


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("text", TEXTS)
def test_a_chosen_model_validates_as_a_discriminated_union_does(text: str, strict: bool) -> None:
    assert outcome(OURS, text, strict) == outcome(THEIRS, text, strict)


def test_it_has_the_same_schema_and_is_written_the_same_way() -> None:
    made = OURS.validate_python([{"kind": "square", "sides": (1.0,)}, Circle(radius=3)])
    assert OURS.json_schema() == THEIRS.json_schema()
    assert OURS.dump_python(made) == THEIRS.dump_python(made)
    assert OURS.dump_json(made, exclude_defaults=True) == THEIRS.dump_json(made, exclude_defaults=True)


def test_a_model_is_not_built_before_it_is_chosen() -> None:
    class Left(Declaration):
        side: Literal["left"] = "left"

    class Right(Declaration):
        side: Literal["right"] = "right"

    adapter = TypeAdapter[Any](Annotated[Left | Right, ChosenBy("side")])
    adapter.validate_python({"side": "left"})
    assert (Left.__pydantic_complete__, Right.__pydantic_complete__) == (True, False)


def test_a_type_is_found_when_its_first_value_comes() -> None:
    found: list[str] = []

    def find() -> Any:
        found.append("found")
        return int

    class Holder(BaseModel):
        number: Annotated[Any, BuiltLater(find)] = None

    assert (Holder().number, found) == (None, [])
    assert Holder(number="5").number == Holder(number="5").number == 5
    assert found == ["found"]


def test_two_threads_may_use_a_model_first() -> None:
    for _ in range(50):

        class Fresh(Declaration):
            size: int = Field(ge=1)
            parts: dict[str, list[int]] = Field(default_factory=dict)

        with ThreadPoolExecutor(4) as pool:
            made = list(pool.map(lambda size, fresh=Fresh: fresh(size=size), range(1, 9)))
        assert [each.size for each in made] == list(range(1, 9))


def test_a_table_is_made_once_when_it_is_first_read() -> None:
    made: list[str] = []
    table = Table(lambda: made.append("made") or {"a": 1, "b": 2})
    assert made == []
    assert (dict(table), len(table), table.get("c"), "a" in table) == ({"a": 1, "b": 2}, 2, None, True)
    assert made == ["made"]
