"""What a program may see and do that drives one context of a browser over the DevTools protocol."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve

from harness.browser.debugger import ClientFiles, ContextGate, DebuggedContext, serve_debugger

NO_FILES = ClientFiles(Path("/nowhere"), ())
OURS, THEIRS = "CONTEXT-1", "CONTEXT-2"


def target(name: str, context: str = OURS, kind: str = "page") -> dict[str, Any]:
    return {"targetId": name, "type": kind, "browserContextId": context}


class FakeBrowser:
    """A browser with a page of ours and one of another task, and the client's side of the gate."""

    def __init__(self, folder: Path = Path("/nowhere")) -> None:
        """`folder`: that of the task."""
        self.asked: list[dict[str, Any]] = []
        self.told: list[dict[str, Any]] = []
        self.acted: list[str] = []
        self.slow = False
        """Whether questions of the gate are not answered at once."""
        self.refused: list[str] = []
        files = ClientFiles(folder, (folder / "kept",))
        self.gate = ContextGate(OURS, self._to_client, self._to_browser, files, self.acted.append, self.refused.append)

    async def _to_client(self, text: str) -> None:
        self.told.append(json.loads(text))

    async def _to_browser(self, text: str) -> None:
        command = json.loads(text)
        self.asked.append(command)
        if command["method"] == "Target.getTargetInfo" and not self.slow:
            found = target("P1") if command["params"]["targetId"] == "P1" else target("P2", THEIRS)
            await self.gate.from_browser({"id": command["id"], "result": {"targetInfo": found}})

    async def says(self, method: str, session: str = "", number: int = 1, **params: Any) -> None:
        inside = {"sessionId": session} if session else {}
        await self.gate.from_client(json.dumps({"id": number, "method": method, "params": params, **inside}))

    async def answers(self, command: dict[str, Any], **result: Any) -> None:
        await self.gate.from_browser({"id": command["id"], "result": result})

    async def attached(self, session: str, info: dict[str, Any]) -> None:
        params = {"sessionId": session, "targetInfo": info, "waitingForDebugger": False}
        await self.gate.from_browser({"method": "Target.attachedToTarget", "params": params})


def play(main: Any) -> None:
    asyncio.run(asyncio.wait_for(main, 5))


@pytest.mark.parametrize(
    "method",
    ["Browser.close", "Target.createBrowserContext", "SystemInfo.getProcessInfo", "Tracing.start", "Page.enable"],
)
def test_what_is_about_the_whole_browser_is_refused(method: str) -> None:
    async def main() -> None:
        browser = FakeBrowser()
        await browser.says(method)
        assert "is not offered" in browser.told[0]["error"]["message"]
        assert browser.asked == []
        await browser.attached("S1", target("P1"))
        await browser.says("Tracing.start", "S1")
        assert "is not offered" in browser.told[-1]["error"]["message"]

    play(main())


FILES: dict[str, Callable[[list[str]], dict[str, Any]]] = {
    "DOM.setFileInputFiles": lambda files: {"files": files, "nodeId": 1},
    "Page.handleFileChooser": lambda files: {"action": "accept", "files": files},
    "Input.dispatchDragEvent": lambda files: {"type": "drop", "data": {"items": [], "files": files}},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A task's folder with a file, a folder and a link that leads out of it."""
    (tmp_path / "secret.txt").write_text("s", "utf-8")
    (task := tmp_path / "tasks").mkdir()
    (task / "photo.png").write_bytes(b"p")
    (task / "files").mkdir()
    (task / "link.txt").symlink_to(tmp_path / "secret.txt")
    return task


@pytest.mark.parametrize("method", FILES)
def test_only_files_of_the_tasks_folder_are_given_to_a_page(folder: Path, method: str) -> None:
    bad = ["/etc/passwd", "../secret.txt", str(folder.parent / "secret.txt"), "link.txt", "files", "absent", "a\0b", ""]

    async def main() -> None:
        browser = FakeBrowser(folder)
        await browser.attached("S1", target("P1"))
        for name in bad:
            await browser.says(method, "S1", **FILES[method]([str(folder / "photo.png"), name]))
        assert browser.asked == []
        told = [each["error"]["message"] for each in browser.told if "error" in each]
        assert len(told) == len(bad)
        assert all(f"only files of the task's folder may be given to a page, {folder}" in each for each in told)
        assert browser.refused == told
        await browser.says(method, "S1", **FILES[method](["photo.png", str(folder / "files/../photo.png")]))
        params = browser.asked[0]["params"]
        assert params.get("data", params)["files"] == [str(folder / "photo.png")] * 2

    play(main())


@pytest.mark.parametrize(
    ("method", "session"), [("Browser.setDownloadBehavior", ""), ("Page.setDownloadBehavior", "S1")]
)
def test_downloads_are_kept_only_where_they_may(folder: Path, method: str, session: str) -> None:
    async def main() -> None:
        browser = FakeBrowser(folder)
        await browser.attached("S1", target("P1"))
        for path in ("/etc", str(folder), f"{folder}/kept/../..", 7):
            await browser.says(method, session, behavior="allow", downloadPath=path)
        assert browser.asked == []
        assert len(browser.refused) == 4
        assert f"downloads may be kept below {folder}/kept only" in browser.refused[0]
        await browser.says(method, session, behavior="allow", downloadPath=f"{folder}/kept/mine")
        await browser.says(method, session, behavior="deny")
        assert len(browser.asked) == 2

    play(main())


@pytest.mark.parametrize(
    "url",
    ["file:///etc/passwd", " FiLe:///", "fi\nle:///", "chrome://settings", "view-source:file:///", "javascript:1"],
)
def test_urls_that_no_task_may_open_are_refused(url: str) -> None:
    async def main() -> None:
        browser = FakeBrowser()
        await browser.says("Target.createTarget", url=url)
        await browser.attached("S1", target("P1"))
        for method in ("Page.navigate", "Network.loadNetworkResource", "Fetch.continueRequest"):
            await browser.says(method, "S1", url=url)
        told = [each["error"]["message"] for each in browser.told if "error" in each]
        assert len(told) == 4
        assert browser.refused == told
        assert all("are not opened" in each for each in told)
        assert (browser.asked, browser.acted) == ([], [])

    play(main())


@pytest.mark.parametrize("url", ["about:blank", "http://shop.local/", "HTTPS://shop.local/", ""])
def test_urls_that_a_task_may_open_go_to_the_browser(url: str) -> None:
    async def main() -> None:
        browser = FakeBrowser()
        await browser.says("Target.createTarget", url=url)
        assert [each["params"]["url"] for each in browser.asked] == [url]

    play(main())


@pytest.mark.parametrize("method", ["Target.createTarget", "Storage.getCookies", "Browser.setDownloadBehavior"])
def test_what_names_a_context_gets_ours(method: str) -> None:
    async def main() -> None:
        browser = FakeBrowser()
        await browser.says(method, browserContextId=THEIRS)
        assert browser.asked[0]["params"]["browserContextId"] == OURS

    play(main())


def test_in_the_session_of_a_page_cookies_are_asked_for_without_a_context() -> None:
    """Chromium refuses `browserContextId` there, and means the context of the page."""

    async def main() -> None:
        browser = FakeBrowser()
        await browser.attached("S1", target("P1"))
        await browser.says("Storage.getCookies", "S1", browserContextId=THEIRS)
        assert browser.asked[0]["params"] == {}

    play(main())


def test_pages_of_other_tasks_are_not_there() -> None:
    async def main() -> None:
        browser = FakeBrowser()
        await browser.says("Target.getTargets", number=1)
        await browser.answers(browser.asked[0], targetInfos=[target("P1"), target("P2", THEIRS)])
        assert [each["targetId"] for each in browser.told[-1]["result"]["targetInfos"]] == ["P1"]
        for name, refused in (("P2", True), ("P1", False)):
            browser.told.clear()
            await browser.says("Target.attachToTarget", number=2, targetId=name)
            assert bool(browser.told) == refused
        await browser.gate.from_browser(
            {"method": "Target.targetCreated", "params": {"targetInfo": target("P2", THEIRS)}}
        )
        await browser.gate.from_browser({"method": "Target.targetDestroyed", "params": {"targetId": "P2"}})
        await browser.attached("S2", target("P2", THEIRS))
        await browser.gate.from_browser({"method": "Page.loadEventFired", "sessionId": "S2", "params": {}})
        assert browser.told == []
        assert browser.asked[-1]["method"] == "Target.detachFromTarget"
        await browser.says("Runtime.evaluate", "S2", expression="document.cookie")
        assert "there is no session S2" in browser.told[-1]["error"]["message"]
        for method, params in (
            ("targetCreated", {"targetInfo": target("P1")}),
            ("targetDestroyed", {"targetId": "P1"}),
        ):
            await browser.gate.from_browser({"method": f"Target.{method}", "params": params})
            assert browser.told[-1]["method"] == f"Target.{method}"
        await browser.says("Target.setAutoAttach", autoAttach=True, waitForDebuggerOnStart=True)
        assert browser.asked[-1]["params"]["waitForDebuggerOnStart"] is False

    play(main())


def test_the_page_that_was_acted_on_last_is_known() -> None:
    async def main() -> None:
        browser = FakeBrowser()
        await browser.attached("S1", target("P1"))
        await browser.attached("W", target("W1", kind="worker"))
        for method, session in (("Page.navigate", "S1"), ("Runtime.evaluate", "S1"), ("Input.insertText", "W")):
            await browser.says(method, session)
        assert browser.acted == ["P1"]

    play(main())


@pytest.mark.parametrize("numbers", [range(100), range(2_000_000_000, 2_000_000_100)])
def test_no_id_of_a_client_is_taken_for_a_question_of_the_gate(numbers: range) -> None:
    """The answer to a question about the client's own page, asked in advance, must not let it into another one."""

    async def main() -> None:
        browser = FakeBrowser()
        await browser.attached("S1", target("P1"))
        browser.slow = True
        for number in numbers:
            await browser.says("Target.getTargetInfo", "S1", number)
        work = asyncio.create_task(browser.says("Target.attachToTarget", number=7, targetId="P2"))
        await asyncio.sleep(0)
        for command in tuple(browser.asked):
            found = target("P2", THEIRS) if command["params"] else target("P1")
            await browser.answers(command, targetInfo=found)
        await work
        assert "Target.attachToTarget" not in [each["method"] for each in browser.asked]

    play(main())


def test_two_commands_with_one_id_are_two_commands() -> None:
    async def main() -> None:
        browser = FakeBrowser()
        await browser.says("Target.getTargets", number=5)
        await browser.says("Browser.getVersion", number=5)
        first, second = browser.asked
        await browser.answers(first, targetInfos=[target("P2", THEIRS)])
        await browser.answers(second, product="Chromium")
        assert [(each["id"], each["result"]) for each in browser.told] == [
            (5, {"targetInfos": []}),
            (5, {"product": "Chromium"}),
        ]

    play(main())


NONSENSE = ["", "[]", '{"id": 1}', '{"id": "x", "method": "Page.enable"}', "\x00", '{"id": 1e400, "method": "x"}']


@pytest.mark.parametrize("text", [*NONSENSE, "[" * 100_000])
def test_nonsense_gets_an_error(text: str) -> None:
    async def main() -> None:
        browser = FakeBrowser()
        await browser.gate.from_client(text)
        assert "a command is an object" in browser.told[0]["error"]["message"]

    play(main())


def test_no_connection_outlives_the_command_that_was_started() -> None:
    """A program that it has left behind holds the connection, and must not touch the page that is judged."""

    async def main() -> None:
        async def browser(connection: ServerConnection) -> None:
            await connection.wait_closed()

        async def receive() -> None:
            await asyncio.Event().wait()

        async def send(text: str) -> None:
            pass

        over = asyncio.Event()
        async with serve(browser, "127.0.0.1", 0) as server:
            place = DebuggedContext(f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/", OURS)
            served = asyncio.create_task(serve_debugger(place, receive, send, NO_FILES, over=over))
            while not server.connections:
                await asyncio.sleep(0.01)
            over.set()
            await served
        await serve_debugger(place, receive, send, NO_FILES, over=over)  # it does not even look for the browser

    play(main())
