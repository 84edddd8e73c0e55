"""Faults of models: an answer that is late, broken, refused or useless, whatever the provider."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from harness.spec.faults.base import LONGEST, FaultBase


class ModelFault(FaultBase):
    """Its occasions are the requests to models; without `times`, it strikes all."""

    model: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="Only requests to this model of `[tool.harness.models]`. Default: to any model.",
    )

    @property
    def target(self) -> str:
        return self.model or self.kind

    @property
    def transient(self) -> bool:
        return self.times is not None or self.until is not None

    @property
    def lasts(self) -> float | None:
        return None


class ModelSlowFirstToken(ModelFault):
    """The model's answer begins late."""

    kind: Literal["model_slow_first_token"] = "model_slow_first_token"
    seconds: float = Field(30, gt=0, le=LONGEST, description="Delay before the answer begins, in seconds.")


class ModelStall(ModelFault):
    """The model's answer begins, and then nothing more comes for some seconds."""

    kind: Literal["model_stall"] = "model_stall"
    seconds: float = Field(LONGEST, gt=0, le=LONGEST, description="Length of the silence, in seconds.")


class ModelCut(ModelFault):
    """The model's answer ends in its middle, and nothing says so."""

    kind: Literal["model_cut"] = "model_cut"


class ModelBadArguments(ModelFault):
    """The model calls a tool with arguments that are no valid JSON, or not those of the tool."""

    kind: Literal["model_bad_arguments"] = "model_bad_arguments"


class ModelUnknownTool(ModelFault):
    """The model calls a tool that does not exist."""

    kind: Literal["model_unknown_tool"] = "model_unknown_tool"


class ModelRefusal(ModelFault):
    """The model refuses to answer."""

    kind: Literal["model_refusal"] = "model_refusal"


class ModelOverflow(ModelFault):
    """The provider says that the request is longer than the model's context window."""

    kind: Literal["model_overflow"] = "model_overflow"


class ModelEmpty(ModelFault):
    """The model's answer is empty."""

    kind: Literal["model_empty"] = "model_empty"
