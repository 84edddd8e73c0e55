"""`[tool.harness.models.<name>]`: the models that agents may ask, what holds for the calls of each, and recordings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from harness.recovery.declaration import Declaration
from harness.spec.marks import in_ci
from harness.spec.problems import did_you_mean

_Provider = Literal["openai", "anthropic", "openai-compatible"]
_REFERENCE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_ADDRESS = re.compile(r"https?://[^\s/@?#]+(?:/[^\s?#]*)?")


def _key_reference(text: str) -> str:
    """Return the text; raises ValueError if it is not a reference to one variable of the environment."""
    if not _REFERENCE.fullmatch(text):
        raise ValueError(
            "must be a reference such as ${env:OPENAI_API_KEY}: a key that stands in a file is no secret any more"
        )
    return text


def _address(text: str) -> str:
    """Return the text; raises ValueError if it is no address of an API."""
    if not _ADDRESS.fullmatch(text):
        raise ValueError("must be an address such as http://localhost:8080/v1, without a login, a query or a fragment")
    return text.rstrip("/")


class ModelLimits(Declaration):
    """How long one request to a model may take."""

    first_token: float = Field(
        20.0, gt=0, le=3600, description="Seconds until the answer begins; only for streamed answers."
    )
    idle: float = Field(20.0, gt=0, le=3600, description="Seconds between two parts of a streamed answer.")
    total: float = Field(60.0, gt=0, le=3600, description="Seconds for the whole answer.")


class ModelRetry(Declaration):
    """When a request that failed for a reason that may pass is made again."""

    retries: int = Field(3, ge=0, le=20, description="Requests after the first.")
    initial: float = Field(1.0, ge=0, le=600, description="Seconds before the first retry; each later wait is double.")
    cap: float = Field(30.0, ge=0, le=600, description="The longest of these waits, in seconds.")
    jitter: float = Field(0.2, ge=0, le=1, description="Share by which each wait differs either way.")
    max_suggested: float = Field(
        60.0,
        ge=0,
        le=3600,
        description="The longest wait in seconds that the provider may ask for (`Retry-After`); else the call is "
        "given up.",
    )


class ModelBreaker(Declaration):
    """When a provider that fails is left alone for a while. `enabled` of `[tool.harness.breaker]` holds here too."""

    failure_threshold: int = Field(5, ge=1, description="Failures in a row, of all tasks, that open the circuit.")
    success_threshold: int = Field(1, ge=1, description="Successful probes that close it.")
    reset_seconds: float = Field(30.0, ge=0, le=3600, description="Seconds until one call may try again.")
    volume_threshold: int = Field(0, ge=0, description="Calls before it may open.")


class ModelPace(Declaration):
    """How many requests go to a model at once."""

    concurrent: int = Field(
        4,
        ge=1,
        le=1000,
        description="Requests at once in one process. An answer 429 or 529 halves the number, ten good ones add one.",
    )


class ModelPrice(Declaration):
    """What a model costs, in US dollars for a million tokens."""

    input: float = Field(ge=0, description="US dollars for a million tokens of input.")
    output: float = Field(ge=0, description="Of output.")
    cache_read: float | None = Field(
        None, ge=0, description="Of input read from the provider's cache. Default: as `input`."
    )
    cache_write: float | None = Field(
        None, ge=0, description="Of input written to the provider's cache. Default: as `input`."
    )


class ModelSettings(Declaration):
    """`[tool.harness.models.<name>]`: a model that agents may ask."""

    provider: _Provider = Field(
        description="Whose API it is. `openai-compatible`: another server with the API of OpenAI, at `base_url`."
    )
    model: str = Field(min_length=1, description="The provider's name of the model.")
    base_url: Annotated[str, AfterValidator(_address), WithJsonSchema({"type": "string"})] | None = Field(
        None,
        description="Address of the API, such as http://localhost:8080/v1, also on a host of `services`. Default: "
        "that of the provider.",
    )
    key: Annotated[str, AfterValidator(_key_reference), WithJsonSchema({"type": "string"})] | None = Field(
        None, description="Reference to the variable that holds the key, such as `${env:OPENAI_API_KEY}`."
    )
    api: Literal["chat", "responses"] = Field(
        "chat", description="The API of OpenAI that is used. Anthropic has only one."
    )
    stream: bool = Field(True, description="Whether answers are streamed; only then `first_token` and `idle` act.")
    max_output: int = Field(4096, ge=1, description="Most tokens of an answer.")
    fallback: tuple[str, ...] = Field(
        (),
        description="Models that are asked when this one fails, in order.",
    )
    limits: ModelLimits = Field(ModelLimits(), description="How long one request may take.")
    retry: ModelRetry = Field(ModelRetry(), description="When a failed request is made again.")
    breaker: ModelBreaker = Field(ModelBreaker(), description="When the provider is left alone for a while.")
    pace: ModelPace = Field(ModelPace(), description="How many requests go out at once.")
    price: ModelPrice | None = Field(
        None,
        description="Default: the list price of a model of this name; if there is none, the cost is unknown, not 0.",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.provider == "openai-compatible" and self.base_url is None:
            raise ValueError("`openai-compatible` needs the address of its API in `base_url`")
        if self.base_url is None and self.key is None:
            raise ValueError(f"`{self.provider}` needs a `key`, such as ${{env:{self._usual_variable}}}")
        if self.provider == "anthropic" and self.api != "chat":
            raise ValueError('`api = "responses"` belongs to OpenAI: Anthropic has only one API')
        if not self.stream and {"first_token", "idle"} & self.limits.model_fields_set:
            raise ValueError("`first_token` and `idle` of `limits` need `stream = true`")
        return self

    @property
    def _usual_variable(self) -> str:
        return "ANTHROPIC_API_KEY" if self.provider == "anthropic" else "OPENAI_API_KEY"

    @property
    def variable(self) -> str | None:
        """The name of the variable that holds the key."""
        found = _REFERENCE.fullmatch(self.key) if self.key else None
        return found[1] if found else None


def checked_models(models: dict[str, ModelSettings]) -> dict[str, ModelSettings]:
    """Return the models; raises ValueError for a `fallback` that names no model, or leads in a circle."""
    for name, each in models.items():
        for other in each.fallback:
            if other not in models:
                near = did_you_mean(other, models) or f"known: {', '.join(models)}"
                raise ValueError(f"{name}.fallback: there is no model `{other}` ({near})")
    for name in models:
        if circle := _circle(models, (name,)):
            raise ValueError(f"{name}.fallback leads in a circle: {' -> '.join(circle)}")
    return models


def _circle(models: Mapping[str, ModelSettings], way: tuple[str, ...]) -> tuple[str, ...]:
    """The first way that comes back to its beginning; empty if there is none."""
    for other in models[way[-1]].fallback:
        if other == way[0]:
            return (*way, other)
        if other not in way and (found := _circle(models, (*way, other))):
            return found
    return ()


def fallbacks_of(models: Mapping[str, ModelSettings], name: str) -> tuple[str, ...]:
    """The models that are asked in turn when a model fails: its own `fallback`, and after each of them its own."""
    found: dict[str, None] = {}

    def add(names: Iterable[str]) -> None:
        for other in names:
            if other != name and other not in found:
                found[other] = None
                add(models[other].fallback)

    add(models[name].fallback)
    return tuple(found)


def keys(models: Mapping[str, ModelSettings], environ: Mapping[str, str]) -> Iterator[str]:
    """The keys that the environment holds: secrets of every run that has models."""
    for each in models.values():
        if each.variable and (value := environ.get(each.variable)):
            yield value


def unset_keys(models: Mapping[str, ModelSettings], environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Model and variable, for each model whose key is not set."""
    for name, each in models.items():
        if each.variable and not environ.get(each.variable):
            yield name, each.variable


# `[tool.harness.cassettes]`: whether models are asked, or recordings of their answers.

CassetteMode = Literal["live", "record", "replay", "auto"]

CASSETTES = "cassettes"
"""The folder of the recordings, beside the task's file."""
_DIFFERENT = (
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?",
    r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b",
    r"(?m)^Left: .*$",
)
"""Times, UUIDs, and the line about the budget that is left: they differ in every run of the same task."""


def _pattern(text: str) -> str:
    """Return the text; raises ValueError if it is no regular expression, or matches everywhere."""
    try:
        found = re.compile(text)
    except re.error as error:
        raise ValueError(f"is no regular expression: {error}") from None
    if found.search(""):
        raise ValueError("matches the empty text, so it would match everywhere")
    return text


class CassetteSettings(Declaration):
    """`[tool.harness.cassettes]`: the recordings of what agents asked models."""

    mode: CassetteMode | None = Field(
        None,
        description="Where the answers of models come from. live: from the providers; record: from the providers, "
        "and they are recorded; replay: only from recordings; auto: from recordings, and what is missing is asked and "
        "recorded. Default: replay if the environment variable `CI` is set, else live.",
    )
    ignore: tuple[Annotated[str, AfterValidator(_pattern)], ...] = Field(
        _DIFFERENT,
        description="Regular expressions for parts of a request that differ in every run. They do not count when a "
        "recording is looked for.",
    )

    def mode_in(self, environ: Mapping[str, str]) -> CassetteMode:
        """The mode of a run in this environment."""
        return self.mode or ("replay" if in_ci(environ) else "live")
