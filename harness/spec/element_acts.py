"""Acts on one element (DESIGN 4.2)."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from harness.spec.step import EffectClass, ElementStep, ForcibleStep


class Click(ForcibleStep):
    """Click an element."""

    act: Literal["click"] = "click"


class Type(ForcibleStep):
    """Replace the content of a field."""

    act: Literal["type"] = "type"
    value: str | int | float

    def describe(self) -> str:
        return f"type {self.selector} = {str(self.value)!r}"


class Option(BaseModel):
    """One option of a list, named by exactly one of its value, its label and its place."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: str | None = None
    label: str | None = None
    index: int | None = Field(None, ge=0, description="0 is the first option.")

    @model_validator(mode="after")
    def _named_once(self) -> Option:
        if len(self.model_dump(exclude_none=True)) != 1:
            raise ValueError("an option is named by exactly one of `value`, `label`, `index`")
        return self


class Select(ForcibleStep):
    """Choose options of a list: by value, else by label; several with a list; or by what an Option says."""

    act: Literal["select"] = "select"
    value: str | int | float | list[str] | Option

    def describe(self) -> str:
        return f"select {self.selector} = {self.value!r}"


class Submit(ElementStep):
    """Submit the form that the element is, or is in."""

    usual_effect: ClassVar[EffectClass] = "write"

    act: Literal["submit"] = "submit"


class Hover(ForcibleStep):
    """Put the pointer over an element."""

    usual_effect: ClassVar[EffectClass] = "read"

    act: Literal["hover"] = "hover"


class Check(ForcibleStep):
    """Tick a box or choose a radio button."""

    act: Literal["check"] = "check"


class Uncheck(ForcibleStep):
    """Take the tick out of a box."""

    act: Literal["uncheck"] = "uncheck"


class Drag(ForcibleStep):
    """Drag an element onto another one."""

    act: Literal["drag"] = "drag"
    value: str = Field(min_length=1, max_length=2000, description="Selector of the element it is dropped on.")

    def describe(self) -> str:
        return f"drag {self.selector} to {self.value}"


class Upload(ElementStep):
    """Put files into a file field. Paths are relative to the task's file and stay inside its folder."""

    act: Literal["upload"] = "upload"
    value: str | list[str]

    def describe(self) -> str:
        return f"upload {self.selector} = {self.value!r}"


class Download(ForcibleStep):
    """Click what starts a download and keep the file; `value` is the file name expected."""

    act: Literal["download"] = "download"
    value: str | None = None
