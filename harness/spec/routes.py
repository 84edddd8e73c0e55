"""`routes:` of a task: answers that its requests get without reaching a site."""

from __future__ import annotations

import warnings
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, JsonValue, model_validator

from harness.recovery.declaration import Declaration, SourcedDeclaration
from harness.spec.context import header_problem
from harness.spec.step_keys import LATER, LONGEST, Method, checked_paths
from harness.spec.url_patterns import BODILESS, OF_URL

_BODIES = ("json", "body", "file")
_OF_ANSWERS = ("status", "headers", *_BODIES)
_LISTS = ("method", "steps")
"""Keys that may be lists; whatever a validator has touched must be a tuple."""
_ABORT = "a route answers; to break a request, declare a fault: `faults: [{kind: abort, url: ...}]`"

_Index = Annotated[int, Field(ge=0)]


def checked_headers(headers: dict[str, str]) -> dict[str, str]:
    """Return the headers; raises ValueError for a name or a value that HTTP does not allow."""
    for name, value in headers.items():
        if LATER not in name + value and (problem := header_problem(name, value)):
            raise ValueError(problem)
    return headers


def _changed_headers(headers: dict[str, str | None]) -> dict[str, str | None]:
    checked_headers({name: value or "" for name, value in headers.items()})
    return headers


with warnings.catch_warnings():  # `json` hides a method of pydantic's models that pydantic itself has given up
    warnings.filterwarnings("ignore", message='Field name "json"')

    class Patch(Declaration):
        """What is changed of the site's own answer."""

        json: Annotated[dict[str, JsonValue], AfterValidator(checked_paths)] = Field(  # type: ignore[assignment]
            default_factory=dict,
            description="Path in the JSON of the answer -> value to put there, as `{items[0].price: 5}`. Keys that are "
            "missing are made; `*` stands for all items.",
        )
        status: int | None = Field(None, ge=200, le=599, description="Status instead of the site's, as an HTTP status.")
        headers: Annotated[dict[str, str | None], AfterValidator(_changed_headers)] = Field(
            default_factory=dict, description="Headers that are put into the answer; one without a value is left out."
        )

        @model_validator(mode="after")
        def _changes(self) -> Self:
            if not self.model_fields_set:
                raise ValueError("`patch` needs `json`, `status` or `headers`: what it changes")
            if self.json and self.status in BODILESS:
                raise ValueError(f"an answer of status {self.status} has no body: leave `json` out")
            return self

    class Route(SourcedDeclaration):
        """Answers the requests that match, in place of their site. Of several routes the first in the file answers."""

        url: str = Field(min_length=1, max_length=2000, description=OF_URL)
        method: Method | tuple[Method, ...] | None = Field(None, description="HTTP method or methods. Default: all.")
        steps: _Index | tuple[_Index, _Index] | None = Field(
            None,
            description="The step during which it answers, or the first and the last one as `[2, 4]`. Default: the "
            "whole task.",
        )
        times: int | None = Field(
            None, ge=1, le=10_000, description="How many requests it answers. Later ones pass, as a number of requests."
        )
        delay: float = Field(0, ge=0, le=LONGEST, description="Delay before the answer, in seconds.")
        optional: bool = Field(False, description="Whether it is no warning that no request matched.")
        status: int | None = Field(
            None, ge=200, le=599, description="Status of the answer. Default: 200 with a body, as an HTTP status."
        )
        headers: Annotated[dict[str, str], AfterValidator(checked_headers)] = Field(
            default_factory=dict, description="Headers of the answer."
        )
        json: JsonValue = Field(None, description="Body of the answer, sent as JSON.")  # type: ignore[assignment]
        body: str = Field("", max_length=1_000_000, description="Body of the answer, as text.")
        file: str | None = Field(
            None,
            min_length=1,
            description="File in the folder of the task's file that is the body. Its suffix gives the content type.",
        )
        patch: Patch | None = Field(
            None,
            description="The request goes to its site, whose answer is changed, instead of the keys above.",
        )
        from_har: str | None = Field(
            None,
            min_length=1,
            description="HAR file in the folder of the task's file, whose recorded answers are given.",
        )
        missing: Literal["fail", "pass"] = Field(
            "fail", description="What becomes of a request that the HAR file does not have."
        )

        @model_validator(mode="before")
        @classmethod
        def _answers(cls, data: Any) -> Any:
            if not isinstance(data, dict):
                return data
            if "abort" in data:
                raise ValueError(_ABORT)
            return {
                key: tuple(each) if key in _LISTS and isinstance(each, list) else each for key, each in data.items()
            }

        @model_validator(mode="after")
        def _one_answer(self) -> Self:
            given = self.model_fields_set
            own = [name for name in _OF_ANSWERS if name in given]
            bodies = [name for name in _BODIES if name in given]
            if self.patch is not None and (others := [*own, *(["from_har"] if self.from_har else [])]):
                raise ValueError(f"`patch` changes the site's own answer: leave `{others[0]}` out")
            if self.from_har is not None and own:
                raise ValueError(f"`from_har` has the whole answer: leave `{own[0]}` out")
            if self.from_har is None and not {*bodies, "status", "patch"} & given:
                raise ValueError(
                    "a route needs `status`, `json`, `body`, `file`, `patch` or `from_har`: what it answers"
                )
            if "missing" in given and self.from_har is None:
                raise ValueError("`missing` is only for a route with `from_har`")
            if len(bodies) > 1:
                raise ValueError(f"an answer has one body: leave `{bodies[1]}` out")
            if bodies and self.status in BODILESS:
                raise ValueError(f"an answer of status {self.status} has no body: leave `{bodies[0]}` out")
            if isinstance(self.steps, tuple) and self.steps[0] > self.steps[1]:
                raise ValueError("`steps` names the first step and then the last one")
            return self

        @property
        def methods(self) -> tuple[str, ...]:
            """The methods that it answers; empty: all."""
            return (self.method,) if isinstance(self.method, str) else self.method or ()

        def lasts_at(self, step: int) -> bool:
            """Return whether it answers while this step runs."""
            first, last = (self.steps, self.steps) if isinstance(self.steps, int) else self.steps or (step, step)
            return first <= step <= last

        @property
        def values_given(self) -> dict[str, Any]:
            """The values that may contain references, as the file has them."""
            return self.model_dump(exclude_unset=True)

        def describe(self) -> str:
            """One line for people: the requests, and what they are answered with."""
            asked = " ".join(("|".join(self.methods), self.url)).strip()
            if self.patch is not None:
                return f"{asked} -> patch of {', '.join(self.patch.model_dump(exclude_defaults=True))}"
            return f"{asked} -> {self.from_har or self.status or 200}"
