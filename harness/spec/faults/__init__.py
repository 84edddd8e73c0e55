"""`faults:` what goes wrong on purpose, one class for each kind."""

from __future__ import annotations

from typing import Annotated

from harness.recovery.declaration import ChosenBy
from harness.spec.faults.base import FaultBase, FaultExpect, RequestFault, StepFault
from harness.spec.faults.kinds import (
    AlertOnLoad,
    BrowserKill,
    BrowserStop,
    ChannelFault,
    ClockMoved,
    Covered,
    DatabaseLocked,
    DelayedState,
    Detached,
    Disabled,
    DriverKill,
    ElementFault,
    EndlessLoop,
    EnvironmentAltered,
    Late,
    MemoryAltered,
    Missing,
    ModelBadArguments,
    ModelCut,
    ModelEmpty,
    ModelFault,
    ModelOverflow,
    ModelRefusal,
    ModelSlowFirstToken,
    ModelStall,
    ModelUnknownTool,
    Moved,
    PageCrash,
    PageFault,
    Popup,
    PortTaken,
    Renamed,
    ServiceFault,
    ServiceKilled,
    ServiceRestarted,
    SessionExpired,
    StorageCleared,
    ToolAnswerLost,
    ToolErrorAnswer,
    ToolFault,
    ToolHangs,
    ToolKilled,
    ToolRefused,
    ToolSlow,
    UnexpectedDialog,
)
from harness.spec.faults.network import (
    Abort,
    Dns,
    Empty,
    Garbage,
    Hang,
    HostFault,
    Offline,
    Refuse,
    Reset,
    Slow,
    Status,
    Tls,
    Truncate,
)

SocketFault = Hang | Reset | Empty | Garbage | Truncate | Slow | Status
"""Faults that strike requests on their way from the browser to the site."""
RouteFault = Dns | Abort
"""Faults that strike requests before they leave the browser."""
InBrowser = (
    Missing | Renamed | Moved | Covered | Disabled | Detached | Late | UnexpectedDialog | AlertOnLoad | Popup
    | PageCrash | EndlessLoop | BrowserStop | BrowserKill | DriverKill
    | Offline | SessionExpired | StorageCleared | ClockMoved
)  # fmt: skip
"""Faults that the browser side injects into a page, a context, or a process."""
InWorld = DelayedState | EnvironmentAltered | MemoryAltered | DatabaseLocked
"""Faults in memory, environment and databases."""
InServices = ServiceKilled | ServiceRestarted | PortTaken
"""Faults in the processes of the sites."""
InModels = (
    ModelSlowFirstToken | ModelStall | ModelCut | ModelBadArguments | ModelUnknownTool | ModelRefusal | ModelOverflow
    | ModelEmpty
)  # fmt: skip
"""Faults in the answers of models."""
InTools = ToolKilled | ToolHangs | ToolSlow | ToolErrorAnswer | ToolRefused | ToolAnswerLost
"""Faults in the calls of tools."""
Fault = Annotated[
    Refuse | Tls | Offline | SocketFault | RouteFault
    | Missing | Renamed | Moved | Covered | Disabled | Detached | Late | UnexpectedDialog | AlertOnLoad | Popup
    | PageCrash | EndlessLoop | BrowserStop | BrowserKill | DriverKill
    | DelayedState | EnvironmentAltered | MemoryAltered | SessionExpired | StorageCleared | DatabaseLocked | ClockMoved
    | InServices | InModels | InTools,
    ChosenBy("kind"),
]  # fmt: skip

__all__ = [
    "Abort", "AlertOnLoad", "BrowserKill", "BrowserStop", "ChannelFault", "ClockMoved", "Covered", "DatabaseLocked",
    "DelayedState", "Detached", "Disabled", "Dns", "DriverKill", "ElementFault", "Empty", "EndlessLoop",
    "EnvironmentAltered", "Fault", "FaultBase", "FaultExpect", "Garbage", "Hang", "HostFault", "InBrowser",
    "InModels", "InServices", "InTools", "InWorld", "Late", "MemoryAltered", "Missing", "ModelBadArguments",
    "ModelCut", "ModelEmpty", "ModelFault", "ModelOverflow", "ModelRefusal", "ModelSlowFirstToken", "ModelStall",
    "ModelUnknownTool", "Moved", "Offline", "PageCrash", "PageFault", "Popup", "PortTaken", "Refuse", "Renamed",
    "RequestFault", "Reset", "RouteFault", "ServiceFault", "ServiceKilled", "ServiceRestarted", "SessionExpired",
    "Slow", "SocketFault", "Status", "StepFault", "StorageCleared", "Tls", "ToolAnswerLost", "ToolErrorAnswer",
    "ToolFault", "ToolHangs", "ToolKilled", "ToolRefused", "ToolSlow", "Truncate", "UnexpectedDialog",
]  # fmt: skip
