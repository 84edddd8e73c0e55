"""`faults:` what goes wrong on purpose (issue: refuse, hang, delayed_state)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator


class FaultBase(BaseModel):
    """What every fault carries. Faults are armed in the order of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str
    step: int = Field(0, ge=0, description="It is armed just before this step, as a step number.")

    @property
    def target(self) -> str:
        """What it strikes."""
        return self.kind

    def describe(self) -> str:
        """One line for people: what it is, what it strikes, and when."""
        how = self.model_dump(exclude_none=True, exclude={"kind", "step", "host", "url", "path", "channel"})
        keys = ", ".join(f"{name} {value}" for name, value in how.items())
        return f"{self.kind} {self.target} at step {self.step}" + (f" ({keys})" if keys else "")


class Refuse(FaultBase):
    """The host's listener is closed, for a number of connections or of seconds."""

    kind: Literal["refuse"] = "refuse"
    host: str = Field(min_length=1, max_length=253, description="Whose listener is closed.")
    connections: int | None = Field(
        None, ge=1, le=10_000, description="How many are refused, as a number of connections."
    )
    seconds: float | None = Field(None, gt=0, le=3600, description="How long all are refused, in seconds.")

    @property
    def target(self) -> str:
        return self.host

    @model_validator(mode="after")
    def _heals_one_way(self) -> Refuse:
        if (self.connections is None) == (self.seconds is None):
            raise ValueError("`refuse` needs either `connections` or `seconds`: how long it lasts")
        return self


class Hang(FaultBase):
    """Requests whose URL matches are accepted, and dropped without an answer after some seconds."""

    kind: Literal["hang"] = "hang"
    url: str = Field(
        min_length=1,
        max_length=2000,
        description="Pattern of whole URLs; `*` is anything; one of `http://` holds https requests too.",
    )
    seconds: float = Field(30, ge=0, le=3600, description="After how long a request is dropped, in seconds.")
    times: int | None = Field(None, ge=1, le=10_000, description="How many; without it, all, as a number of requests.")

    @property
    def target(self) -> str:
        return self.url


class DelayedState(FaultBase):
    """An environment value that arrives late."""

    kind: Literal["delayed_state"] = "delayed_state"
    channel: str = Field("env", description="A channel of `[tool.harness.channels]`.")
    path: str = Field(min_length=1, max_length=2000, description="Place in the channel's document.")
    value: JsonValue = Field(description="What arrives.")
    meanwhile: JsonValue = Field(None, description="What the path holds until then; without it, it is left as it is.")
    seconds: float = Field(ge=0, le=3600, description="After how long it arrives, in seconds.")

    @property
    def target(self) -> str:
        return f"{self.channel} {self.path}"


Fault = Annotated[Refuse | Hang | DelayedState, Field(discriminator="kind")]
