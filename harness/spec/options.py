"""How a task names an option of a list, for the act `select`."""

from __future__ import annotations

from pydantic import Field, model_validator

from harness.recovery.declaration import Declaration


class Option(Declaration):
    """One option of a list, named by exactly one of its value, its label and its place."""

    value: str | None = Field(None, description="The option's value.")
    label: str | None = Field(None, description="The option's label.")
    index: int | None = Field(None, ge=0, description="0 is the first option, as a place in the list.")

    @model_validator(mode="after")
    def _named_once(self) -> Option:
        if len(self.model_dump(exclude_none=True)) != 1:
            raise ValueError("an option is named by exactly one of `value`, `label`, `index`")
        return self

    def __repr__(self) -> str:
        """As a task file has it: `{label: 'Green'}`. Reports show steps with this."""
        return f"{{{', '.join(f'{name}: {value!r}' for name, value in self.model_dump(exclude_none=True).items())}}}"

    __str__ = __repr__
