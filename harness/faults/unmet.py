"""Why a fault never struck, in words. Pure."""

from __future__ import annotations

from harness.faults.occasions import Occasions
from harness.spec.faults import (
    AlertOnLoad,
    Dialog,
    ElementFault,
    Fault,
    FaultBase,
    HostFault,
    Popup,
    RequestFault,
    SessionExpired,
    StepFault,
    StorageCleared,
)


def why_unmet(occasions: Occasions, reached: int) -> str:
    """What was missing; `reached`: the last step that began. Of one that struck it says nothing of use."""
    fault = occasions.fault
    if reached < fault.step:
        return f"step {fault.step} was never reached"
    if occasions.waits and isinstance(fault, StepFault):
        return f"the task ended before its `delay` of {fault.delay:g} s was over"
    if occasions.struck:
        return _without_effect(fault)
    if occasions.seen == 0:
        return _no_occasion(occasions)
    if occasions.seen < fault.nth:
        return f"`nth` is {fault.nth}, and there were only {occasions.seen} of its occasions"
    return f"it had {occasions.seen} occasions, and its `probability` of {fault.probability:g} chose none"


def _no_occasion(occasions: Occasions) -> str:
    fault = occasions.fault
    if occasions.early_or_late:
        return f"all {occasions.early_or_late} of its occasions were before `after` or past `until`"
    if isinstance(fault, RequestFault):
        return "no request matched its `url`"
    act = fault.act or ""
    return f"no {act} step began from step {fault.step} on".replace("  ", " ")


def _without_effect(fault: Fault) -> str:
    return next(words for kinds, words in _WANTED if isinstance(fault, kinds))


_WANTED: tuple[tuple[type[FaultBase], str], ...] = (
    (ElementFault, "its `selector` matched nothing on any page while it stood"),
    (HostFault, "nothing connected to its `host` while it stood"),
    (RequestFault, "no request matched its `url`"),
    (AlertOnLoad, "no page was loaded while it stood"),
    (SessionExpired, "there were no cookies to take away"),
    (StorageCleared, "the open pages had stored nothing"),
    (Dialog, "the page did not open it"),
    (Popup, "the page did not open it"),
    (FaultBase, "what it strikes was not there, or did not answer"),
)
"""What a fault that was done may still have waited for in vain."""
