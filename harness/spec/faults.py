"""`faults:` what goes wrong on purpose (issue: refuse, hang, delayed_state)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator


class FaultBase(BaseModel):
    """What every fault carries. Faults are armed in the order of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str
    step: int = Field(0, ge=0, description="Armed just before this step (0-based).")


class Refuse(FaultBase):
    """The host's listener is closed, for a number of connections or of seconds."""

    kind: Literal["refuse"] = "refuse"
    host: str = Field(min_length=1, max_length=253)
    connections: int | None = Field(None, ge=1, le=10_000)
    seconds: float | None = Field(None, gt=0, le=3600)

    @model_validator(mode="after")
    def _heals_one_way(self) -> Refuse:
        if (self.connections is None) == (self.seconds is None):
            raise ValueError("`refuse` needs either `connections` or `seconds`: how long it lasts")
        return self


class Hang(FaultBase):
    """Requests whose URL matches are accepted, and dropped without an answer after some seconds."""

    kind: Literal["hang"] = "hang"
    url: str = Field(min_length=1, max_length=2000, description="URL pattern; `*` matches anything.")
    seconds: float = Field(30, ge=0, le=3600)
    times: int | None = Field(None, ge=1, le=10_000, description="How many requests; without it, all.")


class DelayedState(FaultBase):
    """An environment value that arrives late (specs/003 7.1, simulate_delayed_state_update)."""

    kind: Literal["delayed_state"] = "delayed_state"
    channel: str = "env"
    path: str = Field(min_length=1, max_length=2000)
    value: JsonValue
    meanwhile: JsonValue = Field(None, description="What the path holds until then; without it, it is left as it is.")
    seconds: float = Field(ge=0, le=3600)


Fault = Annotated[Refuse | Hang | DelayedState, Field(discriminator="kind")]
