"""`faults:` what goes wrong on purpose, one class for each kind. Here: all but the faults of the network."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Annotated, Literal

from pydantic import Field, JsonValue, field_validator

from harness.recovery.declaration import ChosenBy
from harness.spec.faults.base import (
    LONGEST,
    CallFault,
    FaultBase,
    FaultExpect,
    LastingFault,
    Lasts,
    RequestFault,
    StepFault,
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

__all__ = [
    "Abort", "Dns", "Empty", "FaultBase", "FaultExpect", "Garbage", "Hang", "HostFault", "Offline", "Refuse",
    "RequestFault", "Reset", "Slow", "Status", "StepFault", "Tls", "Truncate",
]  # fmt: skip


class PageCrash(StepFault):
    """The page's process crashes."""

    kind: Literal["page_crash"] = "page_crash"


class EndlessLoop(StepFault):
    """A script of the page does not end."""

    kind: Literal["endless_loop"] = "endless_loop"


class BrowserStop(StepFault):
    """The browser's processes are stopped (SIGSTOP) and go on after some seconds."""

    kind: Literal["browser_stop"] = "browser_stop"
    seconds: float | None = Field(
        None, gt=0, le=LONGEST, description="How long the processes are stopped. Default: for ever, in seconds."
    )


class BrowserKill(StepFault):
    """The browser's process is killed (SIGKILL)."""

    kind: Literal["browser_kill"] = "browser_kill"


class DriverKill(StepFault):
    """Playwright's driver process is killed, and with it every browser of the run."""

    kind: Literal["driver_kill"] = "driver_kill"


# Faults of the page: the element of a step is absent, elsewhere, or not usable.


class PageFault(LastingFault):
    """One that lies on the page, on every page that comes after it, and ends after some seconds."""

    seconds: Lasts = None


class ElementFault(PageFault):
    """One that strikes elements."""

    selector: str = Field(min_length=1, max_length=2000, description="CSS selector of the elements that it strikes.")

    @property
    def target(self) -> str:
        return self.selector


class Missing(ElementFault):
    """The elements are removed from the page and restored afterwards."""

    kind: Literal["missing"] = "missing"


class Renamed(ElementFault):
    """Ids, classes and names of elements are changed, in the same way for the same seed; the page still works."""

    kind: Literal["renamed"] = "renamed"
    selector: str = Field(
        "*", min_length=1, max_length=2000, description="CSS selector of the elements whose names are shuffled."
    )


class Moved(ElementFault):
    """The elements move without end."""

    kind: Literal["moved"] = "moved"


class Covered(ElementFault):
    """Another element covers the elements."""

    kind: Literal["covered"] = "covered"


class Disabled(ElementFault):
    """The elements are disabled."""

    kind: Literal["disabled"] = "disabled"


class Detached(ElementFault):
    """The elements are replaced by copies of themselves, over and over."""

    kind: Literal["detached"] = "detached"


class Late(ElementFault):
    """The elements appear on each page only after some seconds."""

    kind: Literal["late"] = "late"
    seconds: float = Field(
        gt=0,
        le=LONGEST,
        description="Delay after the page began to load; on the page that is open, delay after the strike, in seconds.",
    )

    @property
    def lasts(self) -> float | None:
        return None


class UnexpectedDialog(StepFault):
    """A dialog opens on the page."""

    kind: Literal["dialog"] = "dialog"
    type: Literal["alert", "confirm", "prompt", "beforeunload"] = Field("alert", description="Type of the dialog.")
    message: str = Field("injected", max_length=1000, description="Text of the dialog.")


class AlertOnLoad(PageFault):
    """Each page opens an alert while it loads."""

    kind: Literal["alert_on_load"] = "alert_on_load"
    message: str = Field("injected", max_length=1000, description="Text of the dialog.")


class Popup(StepFault):
    """The page opens another page."""

    kind: Literal["popup"] = "popup"
    url: str = Field("about:blank", max_length=2000, description="What is opened: a URL or a path (`/...`).")

    @property
    def target(self) -> str:
        return self.url

    @field_validator("url")
    @classmethod
    def _opens_a_page(cls, url: str) -> str:
        if url != "about:blank" and not url.startswith(("http://", "https://", "/")):
            raise ValueError(f"`url` must begin with http://, https:// or /, or be about:blank; found {url!r}")
        return url


# Faults of the sites: their processes die, restart, or find their port taken.


class ServiceFault(StepFault):
    """One that strikes a service that this run has started; every task that uses it meets it."""

    service: str = Field(min_length=1, max_length=200, description="A service of `[tool.harness.services]`.")

    @property
    def target(self) -> str:
        return self.service


class ServiceKilled(ServiceFault):
    """The service's process is killed and started again, as after any crash."""

    kind: Literal["service_killed"] = "service_killed"


class ServiceRestarted(ServiceFault):
    """The service is stopped normally and started again."""

    kind: Literal["service_restarted"] = "service_restarted"


class PortTaken(ServiceFault):
    """The service's process is killed, and another program listens on its port."""

    kind: Literal["port_taken"] = "port_taken"
    seconds: float = Field(gt=0, le=LONGEST, description="How long the other process keeps the port, in seconds.")


# Faults of the state: values that are late, wrong or missing, in memory, environment, browser and databases.


class ChannelFault(StepFault):
    """One that strikes a value of the environment."""

    channel: str = Field("env", description="A channel of `[tool.harness.channels]`.")
    path: str = Field(min_length=1, max_length=2000, description="Place in the channel's document.")

    @property
    def target(self) -> str:
        return f"{self.channel} {self.path}"


class DelayedState(ChannelFault):
    """A value of the environment arrives late."""

    kind: Literal["delayed_state"] = "delayed_state"
    value: JsonValue = Field(description="The value that arrives.")
    meanwhile: JsonValue = Field(
        None, description="Value until then. Default: the present value stays, or null if it is `value` already."
    )
    when_there: bool = Field(
        False, description="Whether steps are occasions only once the place exists, which the task may make itself."
    )
    seconds: float = Field(ge=0, le=LONGEST, description="Delay until the value arrives, in seconds.")


class EnvironmentAltered(ChannelFault, LastingFault):
    """A value of the environment is changed without the task; it is restored later unless it has changed again."""

    kind: Literal["environment_altered"] = "environment_altered"
    value: JsonValue = Field(description="The new value.")
    seconds: Lasts = None


class MemoryAltered(LastingFault):
    """A memory entry is changed without the task; it is restored later unless it has changed again."""

    kind: Literal["memory_altered"] = "memory_altered"
    key: str = Field(min_length=1, max_length=500, description="The entry's key.")
    value: JsonValue = Field(description="The new value.")
    seconds: Lasts = None

    @property
    def target(self) -> str:
        return self.key


class SessionExpired(StepFault):
    """The cookies are deleted, so the sites no longer know the user."""

    kind: Literal["session_expired"] = "session_expired"
    host: str | None = Field(
        None, min_length=1, max_length=253, description="Delete only the cookies of this host. Default: all cookies."
    )

    @property
    def target(self) -> str:
        return self.host or "all hosts"


class StorageCleared(StepFault):
    """localStorage, sessionStorage and IndexedDB of the open pages are emptied."""

    kind: Literal["storage_cleared"] = "storage_cleared"


class DatabaseLocked(StepFault):
    """An SQLite file is locked: nobody can write to it, and nobody can read it unless it is in WAL mode."""

    kind: Literal["database_locked"] = "database_locked"
    path: str = Field(
        min_length=1,
        max_length=1000,
        description="The file, in the project's folder or in the folder of a service: `{folder:SERVICE}/shop.sqlite3`.",
    )
    seconds: float = Field(gt=0, le=LONGEST, description="How long the file is locked, in seconds.")

    @property
    def target(self) -> str:
        return self.path


_OF_SERVICE = re.compile(r"\{folder:([^{}]+)\}/(.+)", re.DOTALL)


def of_service(path: str) -> tuple[str, str]:
    """The service in whose folder a file lies, and its path there; both empty for a file of the project."""
    match = _OF_SERVICE.fullmatch(path)
    return (match[1], match[2]) if match else ("", "")


class ClockMoved(StepFault):
    """The browser's clock jumps."""

    kind: Literal["clock_moved"] = "clock_moved"
    by: float = Field(
        ge=-1e9, le=1e9, description="How far the clock jumps; a negative number moves it back, in seconds."
    )

    @property
    def transient(self) -> bool:
        return False


# Faults of models: an answer that is late, broken, refused or useless, whatever the provider.


class ModelFault(CallFault):
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


# Faults of tools: a call that is refused, late, lost, or answered with an error, whatever the server.


class ToolFault(CallFault):
    """Its occasions are the calls of tools, each try counted; without `times`, it strikes all."""

    server: str | None = Field(
        None,
        min_length=1,
        max_length=100,
        description="Only calls to this server of `[tool.harness.tools]`, or with `page` to the page's own tools. "
        "Default: to any server.",
    )
    tool: str = Field("*", min_length=1, max_length=200, description="Only calls of this tool; `*` matches anything.")

    @property
    def target(self) -> str:
        if self.tool == "*":
            return self.server or self.kind
        return f"{self.server or '*'}.{self.tool}"

    @property
    def lasts(self) -> float | None:
        return None

    def fits(self, server: str, tool: str) -> bool:
        """Whether a call of that tool is one of its occasions."""
        return self.server in (None, server) and fnmatchcase(tool, self.tool)


class ToolKilled(ToolFault):
    """The server's process is killed (SIGKILL) when it has got the call, before it does anything."""

    kind: Literal["tool_killed"] = "tool_killed"
    server: str = Field(
        min_length=1, max_length=100, description="A server of `[tool.harness.tools]` that has a `command`."
    )


class ToolHangs(ToolFault):
    """The tool does its work, but no answer comes; after some seconds the connection is lost."""

    kind: Literal["tool_hangs"] = "tool_hangs"
    seconds: float = Field(LONGEST, gt=0, le=LONGEST, description="Delay until the connection is lost, in seconds.")


class ToolSlow(ToolFault):
    """The tool's answer is late."""

    kind: Literal["tool_slow"] = "tool_slow"
    seconds: float = Field(30, gt=0, le=LONGEST, description="Delay of the answer, in seconds.")


class ToolErrorAnswer(ToolFault):
    """The answer is that the tool has failed; the tool does not see the call."""

    kind: Literal["tool_error"] = "tool_error"
    message: str = Field("injected", max_length=1000, description="Text of the answer.")


class ToolRefused(ToolFault):
    """The server cannot be reached, and nothing is sent."""

    kind: Literal["tool_refused"] = "tool_refused"


class ToolAnswerLost(ToolFault):
    """The tool does its work, but the connection is lost before the answer comes."""

    kind: Literal["tool_answer_lost"] = "tool_answer_lost"


# The kinds by where they strike.

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
