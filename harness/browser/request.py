"""The request for a session."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from msgspec import Struct, field
from playwright.async_api import Playwright, StorageState

from harness.browser.clipboard import Clipboard
from harness.browser.emulation import Emulation
from harness.browser.executable import BrowserKind
from harness.browser.raw_trace import TRACE
from harness.browser.sending import Announcer
from harness.browser.storage import Storage
from harness.browser.video import VIDEO, Videos
from harness.model.agent_settings import drives_itself
from harness.model.plan import NO_OPTIONS, Plan, ReadyUser
from harness.model.ports import USERS
from harness.model.settings import Recording, Settings, Tracing, WorldMark
from harness.model.tools import PAGE
from harness.recovery.failure import Failed, Failure
from harness.spec.context import ContextOptions, merged, playwright_options
from harness.spec.expressions import heard, steps_of
from harness.spec.names import Domains
from harness.spec.page_steps import Set
from harness.spec.steps import Tool
from harness.spec.task import TaskSpec
from harness.values import replace

if TYPE_CHECKING:
    from harness.browser.routing import Routing
    from harness.browser.write_gate import WriteGate
    from harness.spec.faults.network import TlsProblem

__all__ = ["SessionRequest", "StorageState"]

_GIVE = "Object.defineProperty(window, '__taskspec', {value: JSON.parse(VALUES), configurable: true});\n"


def wants_webmcp(spec: TaskSpec, settings: Settings) -> bool:
    """Return whether the task's pages must be able to offer tools: the project says so, or one of its steps calls one.

    Other tasks have a browser without WebMCP, in which pages behave as in that of their visitors.
    """
    return PAGE in settings.tools or any(isinstance(each, Tool) and each.server == PAGE for _, each in steps_of(spec))


class SessionRequest(Struct, frozen=True):
    """Everything that one task's browser context depends on."""

    world: str
    folder: Path
    """The scratch folder of this task; it exists."""
    uploads: Path
    """The folder from which files may be uploaded."""
    hosts: Mapping[str, int] = field(default_factory=dict)
    """Host name -> port on 127.0.0.1."""
    allowed_domains: tuple[str, ...] = ()
    """The allowed domains; empty: all."""
    webrtc: bool = False
    """Whether WebRTC may send UDP if there are no allowed_domains."""
    virtual_hosts: tuple[str, ...] = ()
    """Templates of servers that serve several hosts as the first part of a path (spec.names.Domains)."""
    start: datetime | None = None
    """The time at which the browser's `Date` begins; it runs on from there."""
    base_url: str | None = None
    recording: Recording = "auto"
    tracing: Tracing = "retain-on-failure"
    videos: Videos | None = None
    """The films of its pages; None: nobody wants a video."""
    on_request_failed: Callable[[str, str], None] | None = None
    """Called with URL and net error of every request that failed."""
    announcer: Announcer = field(default_factory=Announcer)
    """Tells the engine of each unsafe request as it leaves."""
    mark: WorldMark = WorldMark()
    """How the sites learn the world, beside the User-Agent."""
    storage: StorageState | None = None
    """Cookies, localStorage and IndexedDB of a login, or from the episode's task before."""
    storage_seconds: float = 60.0
    """Seconds for putting it into the browser, which takes several times as long as reading it."""
    leave: Callable[[Storage | Failure], Failure | None] | None = None
    """Called with the storage at the end of a task that ended as declared, or with the reason why it could not be read;
    returns the failure of the task, if it exists for its storage. None: nobody goes on with it."""
    tls_problem: Callable[[str], TlsProblem | None] = lambda _: None
    """The TLS fault of a host; called for every connection to it."""

    page_values: Mapping[str, Any] = field(default_factory=dict)
    """The values that pages read as `window.__taskspec`."""
    context: ContextOptions = NO_OPTIONS
    """What the context emulates."""
    scale: float = 1.0
    """The factor for the limits of evidence and of hints (`--task-timeout-scale`)."""
    full_page: bool = False
    """Whether the screenshot of a failure shows the whole page."""
    routing: Routing | None = None
    """The routes of the task; None if it has none."""
    gate: WriteGate | None = None
    """Holds back requests of an agent's steps; None: its policy lets all leave."""
    clipboard: Clipboard = field(default_factory=Clipboard)
    """What the task has copied."""
    init_script: Path | None = None
    """A script that runs in every page and frame before its own scripts."""
    emulation: Emulation = field(default_factory=Emulation)
    """What `set` steps have changed since the task began."""
    clocked: bool = False
    """Whether a step changes the clock of the pages, which must then be ours from the start."""
    webmcp: bool = False
    """Whether its pages can offer tools (`wants_webmcp`)."""
    hears: frozenset[str] = frozenset()
    """What is kept because criteria of the task read it: `responses`, `messages`."""
    debugged: bool = False
    """Whether its agent drives the browser itself, over the DevTools protocol."""
    user: str = ""
    """The name of the user; empty in a task without `users`."""
    seat: int = 0
    """The number of the user. Each user of a task has a browser process of their own: what leaves it is theirs, and it
    can be ended without the others."""

    @classmethod
    def of(cls, plan: Plan, settings: Settings, folder: Path) -> SessionRequest:
        """The request by the task and the project's settings; the caller adds the facts that only the run knows."""
        return cls(
            world=plan.world,
            folder=folder,
            uploads=plan.folder,
            allowed_domains=plan.spec.allowed_domains,
            webrtc=settings.browser.webrtc,
            virtual_hosts=settings.virtual_hosts,
            start=plan.start,
            base_url=settings.base_url,
            recording="full" if plan.in_full else settings.recording,
            tracing="on" if plan.in_full else settings.tracing,
            videos=None if settings.video == "off" else Videos(folder, always=settings.video == "on"),
            mark=settings.world_mark,
            context=plan.context,
            user=plan.user,
            scale=max(1.0, plan.timeout_scale),
            full_page=settings.browser.full_page_screenshot,
            page_values=plan.spec.page_values,
            init_script=settings.init_script,
            clocked=any(isinstance(each, Set) and each.clock is not None for _, each in steps_of(plan.spec)),
            webmcp=wants_webmcp(plan.spec, settings),
            hears=frozenset(heard(plan.spec)),
            debugged=drives_itself(plan.agent, settings.agents),
            storage_seconds=0.9 * plan.timeout,
        )

    def of_user(self, user: ReadyUser, seat: int, storage: StorageState | None) -> SessionRequest:
        """The request for a further user of the task."""
        return replace(
            self, user=user.name, seat=seat, context=user.context, storage=storage, clipboard=Clipboard(),
            emulation=Emulation(), routing=self.routing and self.routing.shared(),
            videos=self.videos and Videos(self.folder / f"films-{seat}", always=self.videos.always),
        )  # fmt: skip

    @property
    def own_folder(self) -> Path:
        """The folder for what only this user's pages give."""
        return self.folder / USERS / self.user if self.seat else self.folder

    @property
    def first_script(self) -> str:
        """The script that runs first in every page and frame: the task's values, then the project's script."""
        values = json.dumps(json.dumps(self.page_values))
        given = _GIVE.replace("VALUES", values) if self.page_values else ""
        return given + (self.init_script.read_text("utf-8") if self.init_script else "")

    @property
    def domains(self) -> Domains:
        """The domains that the task may reach."""
        return Domains(self.allowed_domains, self.virtual_hosts)

    @property
    def options(self) -> ContextOptions:
        """What the context emulates now: as declared, and as `set` steps have changed it."""
        changed = self.emulation.changes.options
        return merged((self.context, changed)) if changed.model_fields_set else self.context

    def emulated(self, playwright: Playwright) -> dict[str, Any]:
        """The context's options for Playwright. Raises Failed for a device that its registry lacks."""
        now = self.options
        name = now.device
        devices = {} if name is None else playwright.devices  # which makes a copy of 140 devices, so it is asked seldom
        if name is not None and name not in devices:
            raise Failed(Failure("INVALID_INPUT", f"the installed Playwright has no device {name!r}"))
        options = playwright_options(now, devices[name] if name else {})
        return options if self.gate is None else {**options, "service_workers": "block"}  # the gate sees none of theirs

    @property
    def kind(self) -> BrowserKind:
        """The kind of its browser. It must not send UDP, unless the session may."""
        sealed = bool(self.allowed_domains) or not self.webrtc
        return BrowserKind(sealed=sealed, webmcp=self.webmcp, debugged=self.debugged, seat=self.seat)

    @property
    def cookies(self) -> list[Any]:
        """The cookies that tell every host of the project which world a request belongs to."""
        addressed = urlsplit(self.base_url or "").hostname
        hosts = dict.fromkeys((*self.hosts, *([addressed] if addressed else ())))
        named = self.mark.cookies(self.world).items()
        return [{"name": name, "value": value, "url": f"http://{host}/"} for name, value in named for host in hosts]

    @property
    def traced_from_start(self) -> bool:
        """Whether the first step is already in trace.zip."""
        return self.tracing == "on" or (self.recording == "full" and self.tracing != "off")

    @property
    def always_kept(self) -> tuple[str, ...]:
        """The names of the recordings that are kept of a task that passes, too."""
        filmed = self.videos is not None and self.videos.always
        return (*((TRACE,) if self.tracing == "on" else ()), *((VIDEO,) if filmed else ()))

    @property
    def traceable(self) -> bool:
        """Whether a trace may be started at all."""
        return self.tracing == "on" or (self.tracing != "off" and self.recording != "minimal")
