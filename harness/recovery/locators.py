"""Locators as people write them: a mapping with a role, a label, a text, and the one text that stands for it.

A task may name an element by a text (CSS, XPath, `role=button[name="Save"]`, `label=User name`) or by a mapping. The
mapping becomes its text as the file is loaded: rules, reports, recordings and records know only texts.
"""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator
from typing_extensions import TypeAliasType

from harness.recovery.declaration import Declaration

_SIMPLE = re.compile(r"[^\s\"'`/\\](?:[^\\\n]*[^\s\\])?")
"""A text that needs no quotes after `label=`."""


def quoted(text: str) -> str:
    """A text in double quotes, as CSS and Playwright's engines read it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def text_body(text: str, *, exact: bool = False) -> str:
    """What stands after `label=`: by default a part of the text in any case, `exact` the whole text."""
    if exact:
        return quoted(text)
    return text if _SIMPLE.fullmatch(text) and ">>" not in text else quoted(text) + "i"


def test_id_body(value: str) -> str:
    """What stands after `testid=`: always the whole value."""
    return value if _SIMPLE.fullmatch(value) and ">>" not in value else quoted(value)


def role_text(role: str, name: str | None, *, exact: bool = False, pattern: bool = False, **states: object) -> str:
    """`role=button[name="Save"]`; without `exact` the name only has to contain the text, in any case."""
    named = ""
    if name is not None:
        named = f"[name={name}]" if pattern else f"[name={quoted(name)}]" if exact else f"[name*={quoted(name)}i]"
    given = ((key.replace("_", "-"), value) for key, value in states.items() if value is not None)
    return f"role={role}{named}" + "".join(
        f"[{key}={value if isinstance(value, str) else json.dumps(value)}]" for key, value in given
    )


class Matches(Declaration):
    """A text that is described by a regular expression."""

    matches: str = Field(min_length=1, max_length=1000, description="Regular expression that the text must match.")


Text = Annotated[str, Field(min_length=1, max_length=1000)] | Matches


class Locator(Declaration):
    """How an element is found: one of `css`, `role`, `label`, `placeholder`, `text`, `test_id`, `alt` and `title`.

    A text must be a part of the one on the page, in any case; `exact: true` compares the whole text.
    """

    css: str | None = Field(
        None, min_length=1, max_length=2000, description="CSS, XPath or any other selector, as a text."
    )
    role: str | None = Field(None, pattern=r"^[\w-]+$", max_length=50, description="ARIA role, such as `button`.")
    name: Text | None = Field(None, description="Accessible name that goes with the `role`.")
    label: Text | None = Field(None, description="Label of a field.")
    placeholder: Text | None = Field(None, description="Placeholder of a field.")
    text: Text | None = Field(None, description="Text of the element.")
    test_id: Text | None = Field(
        None, description="Value of the test attribute (`test_id_attribute`, usually `data-testid`), as a whole."
    )
    alt: Text | None = Field(None, description="Alternative text of an image.")
    title: Text | None = Field(None, description="The `title` attribute.")
    exact: bool = Field(False, description="Whether the text or the name is compared as a whole, and by case.")
    checked: bool | None = Field(None, description="Whether the element with the `role` is checked.")
    disabled: bool | None = Field(None, description="Whether it is disabled.")
    expanded: bool | None = Field(None, description="Whether it is expanded.")
    pressed: bool | None = Field(None, description="Whether it is pressed.")
    selected: bool | None = Field(None, description="Whether it is selected.")
    level: int | None = Field(None, ge=1, le=100, description="Level of a heading, as a plain number.")
    include_hidden: bool | None = Field(None, description="Whether elements that are hidden count too.")
    within: Selector | None = Field(None, description="The element must be inside of this one.")
    has: Selector | None = Field(None, description="The element must contain this one.")
    has_not: Selector | None = Field(None, description="The element must not contain this one.")
    has_text: Text | None = Field(None, description="The element must contain this text.")
    has_not_text: Text | None = Field(None, description="The element must not contain this text.")
    visible: bool | None = Field(None, description="Whether only visible, or only hidden, elements count.")
    nth: int | None = Field(
        None, ge=-100_000, le=100_000, description="Which match: 0 is the first, -1 the last, as a place in the list."
    )
    first: bool = Field(False, description="The first match.")
    last: bool = Field(False, description="The last match.")

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        kinds = [name for name in (*_TEXTS, "css", "role") if getattr(self, name) is not None]
        if len(kinds) != 1:
            found = f"it has {' and '.join(f'`{name}`' for name in sorted(kinds))}" if kinds else "it has none"
            raise ValueError(
                "a locator needs exactly one of `css`, `role`, `label`, `placeholder`, `text`, `test_id`, `alt` and "
                f"`title`; {found}"
            )
        states = [name for name in ("name", *_STATES) if getattr(self, name) is not None]
        if states and self.role is None:
            raise ValueError(f"`{states[0]}` goes with a `role`")
        exact = [getattr(self, name) for name in (*_TEXTS, "name") if name != "test_id"]
        if self.exact and not any(isinstance(text, str) for text in exact):
            raise ValueError("`exact` goes with a text to compare: a `name`, `label`, `text` and so on")
        if (self.nth is not None) + self.first + self.last > 1:
            raise ValueError("only one of `nth`, `first` and `last` can be said")
        return self

    def __str__(self) -> str:
        """The text that stands for it."""
        conditions = (
            self.within,
            self._base(),
            *(f"{name}={quoted(inner)}" for name in ("has", "has-not") if (inner := self._said(name))),
            *(f"{name}={_body(text)}" for name in ("has-text", "has-not-text") if (text := self._said(name))),
            None if self.visible is None else f"visible={json.dumps(self.visible)}",
            self._position(),
        )
        return " >> ".join(filter(None, conditions))

    def _said(self, name: str) -> Any:
        return getattr(self, name.replace("-", "_"))

    def _base(self) -> str:
        if self.css is not None:
            return self.css
        if self.role is not None:
            states = {name: getattr(self, name) for name in _STATES}
            if isinstance(self.name, Matches):
                return role_text(self.role, _pattern(self.name), pattern=True, **states)
            return role_text(self.role, self.name, exact=self.exact, **states)
        name, text = next((name, text) for name in _TEXTS if (text := getattr(self, name)) is not None)
        if name == "test_id" and isinstance(text, str):
            return f"testid={test_id_body(text)}"
        return f"{name.replace('_', '')}={_body(text, exact=self.exact)}"

    def _position(self) -> str | None:
        nth = 0 if self.first else -1 if self.last else self.nth
        return None if nth is None else f"nth={nth}"


_TEXTS = ("label", "placeholder", "text", "test_id", "alt", "title")
_STATES = ("checked", "disabled", "expanded", "pressed", "selected", "level", "include_hidden")


def _body(text: str | Matches, *, exact: bool = False) -> str:
    return _pattern(text) if isinstance(text, Matches) else text_body(text, exact=exact)


def _pattern(text: Matches) -> str:
    """As Playwright writes it; a `/` that is not escaped would end it."""
    return "/" + re.sub(r"\\.|/", lambda found: found[0] if len(found[0]) > 1 else r"\/", text.matches) + "/"


def _as_text(value: object) -> object:
    return str(Locator.model_validate(value, strict=True)) if isinstance(value, dict) else value


Selector = TypeAliasType(
    "Selector",
    Annotated[
        str, BeforeValidator(_as_text, json_schema_input_type=str | Locator), Field(min_length=1, max_length=2000)
    ],
)
"""A selector in a file: a text, or a mapping that becomes its text (Locator)."""
Locator.model_rebuild()
