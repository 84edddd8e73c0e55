"""Faults of the browser, of pages, of sites and of state."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, JsonValue, field_validator

from harness.spec.faults.base import LONGEST, StepFault


class PageCrash(StepFault):
    """The page's process crashes."""

    kind: Literal["page_crash"] = "page_crash"


class EndlessLoop(StepFault):
    """A script of the page does not end."""

    kind: Literal["endless_loop"] = "endless_loop"


class BrowserStop(StepFault):
    """The browser's processes are stopped (SIGSTOP), and go on after some seconds."""

    kind: Literal["browser_stop"] = "browser_stop"
    seconds: float | None = Field(
        None, gt=0, le=LONGEST, description="How long; without it, they never go on, in seconds."
    )


class BrowserKill(StepFault):
    """The browser's process is killed (SIGKILL)."""

    kind: Literal["browser_kill"] = "browser_kill"


class DriverKill(StepFault):
    """Playwright's driver process is killed, and with it every browser of the run."""

    kind: Literal["driver_kill"] = "driver_kill"


# Faults of the page: what a step wants is not there, not where it was, or not to be had.


class PageFault(StepFault):
    """One that lies on the page, on every page that comes after it, and ends after some seconds."""

    seconds: float | None = Field(
        None, gt=0, le=LONGEST, description="How long; without it, to the end of the task, in seconds."
    )

    @property
    def transient(self) -> bool:
        return self.seconds is not None


class ElementFault(PageFault):
    """One that strikes elements."""

    selector: str = Field(min_length=1, max_length=2000, description="CSS selector of the elements that it strikes.")

    @property
    def target(self) -> str:
        return self.selector


class Missing(ElementFault):
    """The elements are taken off the page; afterwards they are put back."""

    kind: Literal["missing"] = "missing"


class Renamed(ElementFault):
    """Ids, classes and names of fields are changed, the same way for the same seed; the page itself goes on working."""

    kind: Literal["renamed"] = "renamed"
    selector: str = Field(
        "*", min_length=1, max_length=2000, description="CSS selector of the elements whose names are shuffled."
    )


class Moved(ElementFault):
    """The elements move without end."""

    kind: Literal["moved"] = "moved"


class Covered(ElementFault):
    """Another element lies over them."""

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
        description="How long after their page has begun, or, on the open one, after the strike, in seconds.",
    )

    @property
    def lasts(self) -> float | None:
        return None


class UnexpectedDialog(StepFault):
    """A dialog comes up on the page."""

    kind: Literal["dialog"] = "dialog"
    type: Literal["alert", "confirm", "prompt", "beforeunload"] = Field("alert", description="Which dialog.")
    message: str = Field("injected", max_length=1000, description="What it says.")


class AlertOnLoad(PageFault):
    """Pages raise an alert as they load."""

    kind: Literal["alert_on_load"] = "alert_on_load"
    message: str = Field("injected", max_length=1000, description="What it says.")


class Popup(StepFault):
    """The page opens a new one."""

    kind: Literal["popup"] = "popup"
    url: str = Field("about:blank", max_length=2000, description="What is opened, as a URL or a path (`/...`).")

    @property
    def target(self) -> str:
        return self.url

    @field_validator("url")
    @classmethod
    def _opens_a_page(cls, url: str) -> str:
        if url != "about:blank" and not url.startswith(("http://", "https://", "/")):
            raise ValueError(f"`url` must begin with http://, https:// or /, or be about:blank; found {url!r}")
        return url


# Faults of the sites: their processes die, start anew, or find their port taken.


class ServiceFault(StepFault):
    """One that strikes a service that this run has started; every task that uses it meets it."""

    service: str = Field(min_length=1, max_length=200, description="A name of `[tool.harness.services]`.")

    @property
    def target(self) -> str:
        return self.service


class ServiceKilled(ServiceFault):
    """The service's process is killed; it is started again, as after any crash."""

    kind: Literal["service_killed"] = "service_killed"


class ServiceRestarted(ServiceFault):
    """The service is ended in order, and started again."""

    kind: Literal["service_restarted"] = "service_restarted"


class PortTaken(ServiceFault):
    """The service's process is killed, and a stranger listens on its port."""

    kind: Literal["port_taken"] = "port_taken"
    seconds: float = Field(gt=0, le=LONGEST, description="How long the stranger stays, in seconds.")


# Faults of the state: values that are late, wrong or gone, in memory, environment, browser and databases.


class ChannelFault(StepFault):
    """One that strikes a value of the environment."""

    channel: str = Field("env", description="A channel of `[tool.harness.channels]`.")
    path: str = Field(min_length=1, max_length=2000, description="Place in the channel's document.")

    @property
    def target(self) -> str:
        return f"{self.channel} {self.path}"


class DelayedState(ChannelFault):
    """An environment value that arrives late."""

    kind: Literal["delayed_state"] = "delayed_state"
    value: JsonValue = Field(description="What arrives.")
    meanwhile: JsonValue = Field(None, description="What the path holds until then; without it, it is left as it is.")
    seconds: float = Field(ge=0, le=LONGEST, description="After how long it arrives, in seconds.")


class EnvironmentAltered(ChannelFault):
    """An environment value is changed behind the task's back; afterwards it is put back, if it still is as changed."""

    kind: Literal["environment_altered"] = "environment_altered"
    value: JsonValue = Field(description="What it becomes.")
    seconds: float | None = Field(
        None, gt=0, le=LONGEST, description="How long; without it, to the end of the task, in seconds."
    )

    @property
    def transient(self) -> bool:
        return self.seconds is not None


class MemoryAltered(StepFault):
    """A memory entry is changed behind the task's back; afterwards it is put back, if it still is as changed."""

    kind: Literal["memory_altered"] = "memory_altered"
    key: str = Field(min_length=1, max_length=500, description="The entry's key.")
    value: JsonValue = Field(description="What it becomes.")
    seconds: float | None = Field(
        None, gt=0, le=LONGEST, description="How long; without it, to the end of the task, in seconds."
    )

    @property
    def target(self) -> str:
        return self.key

    @property
    def transient(self) -> bool:
        return self.seconds is not None


class SessionExpired(StepFault):
    """The cookies are gone: the sites no longer know the user."""

    kind: Literal["session_expired"] = "session_expired"
    host: str | None = Field(
        None, min_length=1, max_length=253, description="Only the cookies of this host; without it, all."
    )

    @property
    def target(self) -> str:
        return self.host or "all hosts"


class StorageCleared(StepFault):
    """localStorage, sessionStorage and IndexedDB of the open pages are emptied."""

    kind: Literal["storage_cleared"] = "storage_cleared"


class DatabaseLocked(StepFault):
    """An SQLite file is locked by somebody else: nobody can write to it, nor read it unless it is in WAL mode."""

    kind: Literal["database_locked"] = "database_locked"
    path: str = Field(
        min_length=1,
        max_length=1000,
        description="The file, inside the project's folder, or in that of a service: `{folder:SERVICE}/shop.sqlite3`.",
    )
    seconds: float = Field(gt=0, le=LONGEST, description="How long, in seconds.")

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
    by: float = Field(ge=-1e9, le=1e9, description="How far; less than 0: back, in seconds.")

    @property
    def transient(self) -> bool:
        return False
