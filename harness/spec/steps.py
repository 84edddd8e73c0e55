"""The steps of a task: one model per act (DESIGN 4.2)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from harness.spec.element_acts import Check, Click, Download, Drag, Hover, Option, Select, Submit, Type, Uncheck, Upload
from harness.spec.page_acts import Api, Assert, Dialog, Open, Press, Screenshot, Scroll, SwitchPage, Wait
from harness.spec.step import EffectClass, ElementStep, ForcibleStep, StepBase

__all__ = [
    "Api",
    "Assert",
    "Check",
    "Click",
    "Dialog",
    "Download",
    "Drag",
    "EffectClass",
    "ElementStep",
    "ForcibleStep",
    "Hover",
    "Open",
    "Option",
    "Press",
    "Screenshot",
    "Scroll",
    "Select",
    "Step",
    "StepBase",
    "Submit",
    "SwitchPage",
    "Type",
    "Uncheck",
    "Upload",
    "Wait",
]

Step = Annotated[
    Open
    | Click
    | Type
    | Select
    | Submit
    | Press
    | Hover
    | Check
    | Uncheck
    | Drag
    | Scroll
    | Wait
    | Upload
    | Download
    | Api
    | Assert
    | SwitchPage
    | Dialog
    | Screenshot,
    Field(discriminator="act"),
]
