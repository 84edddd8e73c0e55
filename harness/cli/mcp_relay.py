"""Passes calls of tools on to the servers of a project, and sees to it that there is one."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

import httpx2
import msgspec

from harness.bridge.mcp_tools import FaceReply, refusal_reply
from harness.bridge.refusals import RefusedMessageError
from harness.model.settings import Settings
from harness.resilience import Clock
from harness.resilience.retry import schedule
from harness.serve.address import ServeAddress, address_of, addresses_of
from harness.serve.start import NotServedError, answers, serving
from harness.serve.tokens import Tokens, TokenScope
from harness.serve.users import ServerUse

ANSWERED_WITHIN: Final = 40.0
"""Seconds that a call may take: above the 35 s of a server."""
AWAY: Final = 6.0
"""Seconds that a call waits for another server when there is none, as after a kill: one starts within that time."""
_FIRST_LOOK: Final = 20.0
"""Seconds that the first call waits for a server that is being started, on a busy machine, too."""
LOOK: Final = 0.5
"""Seconds between two looks for a run that offers tasks."""
_VALID: Final = timedelta(hours=1)
_AGAIN: Final = frozenset({"observe", "act", "finish", "command_result", "session_status", "tasks_list"})
"""Tools that may be called again when the answer is lost: the bridge knows an act by what is asked."""
_NO_RUN: Final = (
    "the server only shows pages (--page-only): `pytest tasks/ --agent bridge` starts a run that offers tasks"
)
_AWAY: Final = "the server is gone or does not answer; another one is being started"
_UNTRUSTED: Final = "the server has another certificate than `tls_cert` of [tool.harness.serve], or an expired one"


class ServerRelay:
    """The servers of one project, for one agent: the run that serves agents, and `harness serve`."""

    def __init__(self, settings: Settings, clock: Clock, use: ServerUse, *, persist: bool) -> None:
        """`persist`: a server that is started for this stays. Raises OSError if the key of tokens cannot be used."""
        self._settings = settings
        self._clock = clock
        self._use = use
        self._persist = persist
        self._tokens = Tokens.of(settings.root)
        self._http: httpx2.AsyncClient | None = None
        self._looked = asyncio.Event()
        """Set once it is known whether there is a server."""
        self._gone = asyncio.Event()
        """Set when a call has found none."""
        self.trouble = ""
        """Why there is no server."""
        self._only_pages = False
        """Whether a server was there at the last call, and none of them had a bridge."""

    # That there is one.

    async def attend(self) -> None:
        """Find or start a server, again after each loss, with the delays of 000; until it is cancelled."""
        delays, failed = schedule("spec-000").values, 0
        while True:
            self._gone.clear()
            try:
                await asyncio.to_thread(self._ensure)
            except (NotServedError, OSError) as error:
                self.trouble, failed = str(error), failed + 1
                if found := address_of(self._settings.root):
                    silent = f"the server with the pid {found.pid} does not answer: `harness serve stop` ends it"
                    self.trouble += f"; {silent}"
                self._looked.set()
                await self._clock.sleep(delays[min(failed, len(delays)) - 1])
                continue
            self.trouble, failed = "", 0
            self._looked.set()
            await self._gone.wait()

    def _ensure(self) -> None:
        """Find or start a server; blocks for 4 s at most. Raises NotServedError, and OSError."""
        if any(map(answers, addresses_of(self._settings.root))):
            return
        pids: list[int] = []
        options = () if self._persist else ("--while-used",)
        address = asyncio.run(serving(self._settings.root, self._clock, options=options, begun=pids.append))
        if address.pid in pids and not self._persist:
            self._use.started(address)

    # Calls.

    async def call(self, tool: str, arguments: Mapping[str, Any], client: str) -> FaceReply:
        """Call a tool. Whatever happens, there is an answer, and a refusal says what to do."""
        try:
            async with asyncio.timeout(_FIRST_LOOK):
                await self._looked.wait()
        except TimeoutError:
            self.trouble = "the server is being started"
        wait = arguments.get("wait_ms", 25_000) if tool == "task_take" else 0
        began, patience = self._clock.now(), min(wait, 30_000) / 1000 if isinstance(wait, int | float) else 0
        while (reply := await self._passed_on(tool, arguments, client)) is None:
            starts = AWAY if not self._only_pages and not self.trouble else 0
            if self._clock.now() - began >= max(patience, starts):
                return self._nobody(tool)
            await self._clock.sleep(LOOK)
        return reply

    def _nobody(self, tool: str) -> FaceReply:
        if self.trouble or not self._only_pages:
            return refusal_reply(RefusedMessageError("CONN_NO_SERVER", self.trouble or _AWAY).payload)
        if tool == "tasks_list":
            return FaceReply({"tasks": [], "sessions": [], "hint": _NO_RUN})
        return refusal_reply(RefusedMessageError("CONN_NO_SERVER", _NO_RUN).payload)

    async def _passed_on(self, tool: str, arguments: Mapping[str, Any], client: str) -> FaceReply | None:
        """The answer of the server that knows the session; None if none has a bridge."""
        refused, there = None, False
        for address in addresses_of(self._settings.root):
            if not await asyncio.to_thread(answers, address):
                continue  # a server that is silent would hold the call for as long as the call may take
            reply = await self._asked(address, {"tool": tool, "arguments": dict(arguments), "client": client})
            there = there or reply is not None
            if isinstance(reply, FaceReply):
                if reply.structured.get("code") != "SESS_NOT_FOUND":
                    return reply
                refused = reply
        self._only_pages = there
        if not there:
            self._gone.set()
        return refused

    async def _asked(self, address: ServeAddress, call: Mapping[str, Any]) -> FaceReply | bool | None:
        """The answer of one server; True if it has no bridge, None if it cannot be reached."""
        host = f"[{address.reached_at}]" if ":" in address.reached_at else address.reached_at
        for _ in range(2 if call["tool"] in _AGAIN else 1):
            token = self._tokens.issue(TokenScope.AGENT, self._clock.wall(), _VALID)
            try:
                answer = await self._client().post(
                    f"{'https' if address.secure else 'http'}://{host}:{address.port}/calls",
                    content=msgspec.json.encode(call),
                    headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
                )
            except httpx2.ConnectError as error:
                if "CERTIFICATE_VERIFY_FAILED" in str(error):
                    return refusal_reply(RefusedMessageError("CONN_TLS_HANDSHAKE_FAILED", _UNTRUSTED).payload)
                return None
            except httpx2.HTTPError:
                continue
            if answer.status_code == httpx2.codes.OK:
                return msgspec.json.decode(answer.content, type=FaceReply)
            return True if answer.status_code == httpx2.codes.NOT_FOUND else _refused(answer)
        return None

    def _client(self) -> httpx2.AsyncClient:
        """The client, without proxies; the server's own certificate is the only one that it trusts."""
        if self._http is None:
            certificate = self._settings.serve.certificate(self._settings.root)
            trusted: ssl.SSLContext | bool = True
            if certificate is not None:
                trusted = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                trusted.load_verify_locations(certificate[0])
                trusted.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # whoever has issued it
                trusted.check_hostname = False  # the address comes from the project's own file
            no_reuse = httpx2.Limits(max_keepalive_connections=0)
            self._http = httpx2.AsyncClient(timeout=ANSWERED_WITHIN, trust_env=False, verify=trusted, limits=no_reuse)
        return self._http


def _refused(answer: httpx2.Response) -> FaceReply:
    try:
        told = msgspec.json.decode(answer.content, type=dict[str, Any])
    except msgspec.DecodeError:
        told = {}
    payload = told.get("payload", told)
    return refusal_reply(
        {"code": "SYS_INTERNAL_ERROR", "message": f"the server answered {answer.status_code}", **payload}
    )
