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
    value: str | int | float = Field(description="What the field then holds.")

    def describe(self) -> str:
        return f"type {self.selector} = {str(self.value)!r}"


class Option(BaseModel):
    """One option of a list, named by exactly one of its value, its label and its place."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: str | None = Field(None, description="The option's value.")
    label: str | None = Field(None, description="What it says.")
    index: int | None = Field(None, ge=0, description="0 is the first option, as a place in the list.")

    @model_validator(mode="after")
    def _named_once(self) -> Option:
        if len(self.model_dump(exclude_none=True)) != 1:
            raise ValueError("an option is named by exactly one of `value`, `label`, `index`")
        return self


class Select(ForcibleStep):
    """Choose options of a list: by value, else by label; several with a list; or by what an Option says."""

    act: Literal["select"] = "select"
    value: str | int | float | list[str] | Option = Field(
        description="Value, else label, of an option; several in a list; or exactly one of `value`, `label`, `index`."
    )

    def describe(self) -> str:
        value = self.value.model_dump(exclude_none=True) if isinstance(self.value, Option) else self.value
        return f"select {self.selector} = {value!r}"


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
    value: str = Field(min_length=1, max_length=2000, description="Selector of the element that it is dropped on.")

    def describe(self) -> str:
        return f"drag {self.selector} to {self.value}"


class Upload(ElementStep):
    """Put files into a file field, or into the file chooser that a click brings up."""

    act: Literal["upload"] = "upload"
    value: str | list[str] = Field(description="File or files, beside the task's file.")

    def describe(self) -> str:
        return f"upload {self.selector} = {self.value!r}"


class Download(ForcibleStep):
    """Click what starts a download, and keep the file."""

    act: Literal["download"] = "download"
    value: str | None = Field(None, description="File name expected; `*` stands for anything.")
