"""The bases of what people declare (rules, steps, faults, settings) and of documents: built when they are used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from typing import Annotated, Any, Generic, Self, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler, PrivateAttr, TypeAdapter
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema, to_json


class Declaration(BaseModel):
    """A part of a file that people write: frozen, no key but its own, and built when it is first used.

    There are over a hundred of these models, and a run needs few of them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Document(BaseModel):
    """A part of a file that the harness writes: frozen, and built when it is first used."""

    model_config = ConfigDict(frozen=True, defer_build=True)


class SourcedDeclaration(Declaration):
    """A declaration that knows its place."""

    _source: str = PrivateAttr("")

    @property
    def source(self) -> str:
        """The file and line of the declaration, as shown to people; empty for one that was made in Python."""
        return self._source

    def with_source(self, source: str) -> Self:
        """Return a copy with the place of its declaration."""
        copy = self.model_copy()
        copy._source = source  # noqa: SLF001 - its own
        return copy


class ChosenBy:
    """Marks a union whose member is chosen by a key (`act`, `kind`, `strategy`), like pydantic's `discriminator`.

    It differs in one thing: a member is built when it is first chosen, and not with the model that has the union.
    """

    def __init__(self, tag: str) -> None:
        self.tag = tag

    def __get_pydantic_core_schema__(self, union: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def choice(model: type[BaseModel]) -> CoreSchema:
            return handler.generate_schema(Annotated[Any, BuiltLater(lambda: model)])

        choices = {model.model_fields[self.tag].default: choice(model) for model in get_args(union)}
        own = core_schema.simple_ser_schema("any")  # whatever was chosen writes itself
        return core_schema.tagged_union_schema(choices, self.tag, from_attributes=True, serialization=own)


class BuiltLater:
    """Stands for a type that is found and built when its first value is validated: `Annotated[Any, BuiltLater(f)]`."""

    def __init__(self, find: Callable[[], Any]) -> None:
        self._find = find

    @cached_property
    def adapter(self) -> TypeAdapter[Any]:
        """The type, ready to validate."""
        found = self._find()
        if isinstance(found, type) and issubclass(found, BaseModel):
            found.model_rebuild()  # otherwise only the adapter would be built, and later the model again
        return TypeAdapter(found)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Four ways lead to the type: strictly or not, and from JSON, which has lists where Python has tuples."""
        json, python = (
            core_schema.lax_or_strict_schema(
                core_schema.no_info_plain_validator_function(partial(validate, strict=False)),
                core_schema.no_info_plain_validator_function(partial(validate, strict=True)),
            )
            for validate in (self._of_json, self._of_python)
        )
        return core_schema.json_or_python_schema(json, python)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(core_schema.definitions_schema(self.adapter.core_schema, []))

    def _of_json(self, value: Any, strict: bool) -> Any:
        return self.adapter.validator.validate_json(to_json(value, inf_nan_mode="constants"), strict=strict)

    def _of_python(self, value: Any, strict: bool) -> Any:
        return self.adapter.validator.validate_python(value, strict=strict)


def shown_default(make: Callable[[], BaseModel]) -> Callable[[dict[str, Any]], None]:
    """Return the `json_schema_extra` of a field with a `default_factory`: its schema shows what the factory makes."""

    def show(schema: dict[str, Any]) -> None:
        schema["default"] = make().model_dump(mode="json")

    return show


Value = TypeVar("Value")


class Table(Mapping[str, Value], Generic[Value]):
    """A table that is made when it is first read."""

    def __init__(self, make: Callable[[], Mapping[str, Value]]) -> None:
        self._make = make

    @cached_property
    def _rows(self) -> Mapping[str, Value]:
        return self._make()

    def __getitem__(self, key: str) -> Value:
        return self._rows[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)
