"""Every act, in real Chromium."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.failure import Failure
from harness.spec.steps import Wait
from tests.browser.stage import OTHER, SHOP, Stage, failed, passed

pytestmark = pytest.mark.filterwarnings("default")


@pytest.mark.parametrize(
    ("step", "function", "selector", "expected"),
    [
        ({"act": "click", "selector": "#plain"}, "text", "#out", "clicked"),
        ({"act": "click", "selector": "text=Plain"}, "text", "#out", "clicked"),
        ({"act": "click", "selector": "//button[@id='plain']"}, "text", "#out", "clicked"),
        ({"act": "click", "selector": "role=button[name='Plain']"}, "text", "#out", "clicked"),
        ({"act": "click", "selector": "#busy"}, "text", "#out", "was busy"),
        ({"act": "type", "selector": "#name", "value": 42}, "value", "#name", "42"),
        ({"act": "type", "selector": "#date", "value": "2024-02-29"}, "value", "#date", "2024-02-29"),
        ({"act": "type", "selector": "#editable", "value": "rich"}, "text", "#editable", "rich"),
        ({"act": "select", "selector": "#colour", "value": "g"}, "value", "#colour", "g"),
        ({"act": "select", "selector": "#colour", "value": "Green"}, "value", "#colour", "g"),
        ({"act": "select", "selector": "#many", "value": ["a", "C"]}, "count", "#many option:checked", 2),
        ({"act": "check", "selector": "#agree"}, "count", "#agree:checked", 1),
        ({"act": "submit", "selector": "#form"}, "title", None, "Saved"),
        ({"act": "submit", "selector": "#name"}, "title", None, "Saved"),
        ({"act": "submit", "selector": "#send"}, "title", None, "Saved"),
        ({"act": "click", "selector": "#next"}, "title", None, "Saved"),
        ({"act": "press", "selector": "#name", "value": "Enter"}, "title", None, "Saved"),
        ({"act": "wait", "selector": ".dup", "value": "two"}, "count", ".dup", 2),
        ({"act": "click", "selector": "#covered", "force": True}, "text", "#out", "nothing"),
    ],
)
def test_act(run: Any, stage: Stage, step: dict[str, Any], function: str, selector: str | None, expected: Any) -> None:
    async def body() -> None:
        session = await stage.at()
        await passed(session, step)
        assert await session.read(function, selector, None, 2) == expected

    run(body())


def test_press_on_the_page_and_scroll(run: Any, stage: Stage) -> None:
    async def body() -> None:
        session = await stage.at()
        page = session._tab.page
        await passed(session, {"act": "scroll", "value": 500})
        assert await page.evaluate("scrollY") == 500
        await passed(session, {"act": "scroll"})
        assert await page.evaluate("scrollY") > 1000
        await passed(session, {"act": "scroll", "selector": ".dup"})
        assert await page.evaluate("scrollY") < 1000
        await passed(session, {"act": "press", "value": "Tab"})
        assert await page.evaluate("document.activeElement.tagName") != "BODY"

    run(body())


def test_act_in_a_frame(run: Any, stage: Stage) -> None:
    async def body() -> None:
        session = await stage.at()
        await passed(session, {"act": "click", "selector": "#in", "frame": "#inner"})
        assert await session.text("#in", "#inner", 1) == "pressed"

    run(body())


def test_wait_sees_what_comes_later(run: Any, stage: Stage) -> None:
    async def body() -> None:
        session = await stage.at()
        await passed(session, {"act": "click", "selector": "#late"})
        await passed(session, {"act": "wait", "selector": "#appeared", "value": "Order 17"})

    run(body())


def test_wait_of_seconds_ends_with_the_step(run: Any, stage: Stage) -> None:
    async def body() -> None:
        session = await stage.session()
        await passed(session, {"act": "wait", "value": 0.1})
        long = Wait(value=30)
        failure = await session.perform(long, 0.2, 0.2)
        assert isinstance(failure, Failure)
        assert (failure.code, failure.tainted) == ("STEP_TIMEOUT", False)
        assert failure.message == f"Step timeout: {long.describe()} exceeded 0.2s"

    run(body())


def test_element_may_come_late_and_be_ready_later_still(run: Any, stage: Stage) -> None:
    async def body() -> None:
        session = await stage.at()
        page = session._tab.page
        await page.evaluate("() => { setTimeout(() => { disabled.disabled = false }, 900) }")
        await passed(session, {"act": "click", "selector": "#disabled"}, within=4, patience=0.3)
        await page.evaluate("() => { plain.onclick = () => { window.n = (window.n || 0) + 1 } }")
        await passed(session, {"act": "click", "selector": "#plain"}, within=4, patience=0.3)
        assert await page.evaluate("window.n") == 1

    run(body())


def test_a_click_is_not_repeated_while_its_consequences_last(run: Any, stage: Stage) -> None:
    async def body() -> None:
        session = await stage.at()
        page = session._tab.page
        await page.evaluate("() => { busy.addEventListener('click', () => { window.n = (window.n || 0) + 1 }) }")
        await passed(session, {"act": "click", "selector": "#busy"}, within=4, patience=0.3)
        assert await page.evaluate("window.n") == 1

    run(body())


@pytest.mark.parametrize(
    ("selector", "kind", "message", "after"),
    [
        ("#alert", "alert", "really?", "answered"),
        ("#confirm", "confirm", "sure?", "confirm true"),
        ("#prompt", "prompt", "who?", "prompt me"),
    ],
)
def test_dialogs_are_accepted_and_told(
    run: Any, stage: Stage, selector: str, kind: str, message: str, after: str
) -> None:
    async def body() -> None:
        session = await stage.at()
        outcome = await passed(session, {"act": "click", "selector": selector})
        assert outcome.details["dialogs"] == [{"type": kind, "message": message}]
        assert await session.text("#out", None, 1) == after
        assert "dialogs" not in (await passed(session, {"act": "click", "selector": "#plain"})).details

    run(body())


def test_what_heals_a_missing_element_is_described(run: Any, stage: Stage) -> None:
    async def body() -> None:
        session = await stage.at()
        await failed(session, {"act": "type", "selector": "#nome", "value": "x"}, patience=0.2)
        healed = await passed(session, {"act": "type", "selector": "#name", "value": "x"})
        assert healed.details["element"] == {"tag": "input", "role": "textbox", "name": "Your name"}
        assert "element" not in (await passed(session, {"act": "click", "selector": "#plain"})).details

    run(body())


def test_upload(run: Any, stage: Stage) -> None:
    async def body() -> None:
        (stage.folder / "a.txt").write_text("A")
        (stage.folder / "sub").mkdir()
        (stage.folder / "sub" / "b.txt").write_text("B")
        session = await stage.at()
        outcome = await passed(session, {"act": "upload", "selector": "#file", "value": ["a.txt", "sub/b.txt"]})
        assert outcome.details["files"] == ["a.txt", "b.txt"]
        names = await session._tab.page.evaluate("[...file.files].map(f => f.name)")
        assert names == ["a.txt", "b.txt"]

    run(body())


def test_upload_stays_in_the_folder(run: Any, stage: Stage) -> None:
    async def body() -> None:
        inside = stage.folder / "task"
        inside.mkdir()
        (stage.folder / "secret.txt").write_text("S")
        (inside / "link.txt").symlink_to(stage.folder / "secret.txt")
        session = await stage.at(uploads=inside)
        for value in ("../secret.txt", str(stage.folder / "secret.txt"), "link.txt", "missing.txt"):
            failure = await failed(session, {"act": "upload", "selector": "#file", "value": value})
            assert failure.code == "INVALID_INPUT", value
        assert await session._tab.page.evaluate("file.files.length") == 0

    run(body())


def test_download_keeps_the_file(run: Any, stage: Stage) -> None:
    async def body() -> None:
        session = await stage.at()
        outcome = await passed(session, {"act": "download", "selector": "#file-link", "value": "*.csv"})
        assert outcome.details == {"file": "report.csv", "bytes": 4}
        again = await passed(session, {"act": "download", "selector": "#file-link"})
        assert again.details["file"] == "report-2.csv"
        folder = stage.folder / "s0" / "downloads"
        assert session.files == (folder / "report.csv", folder / "report-2.csv")
        assert Path(session.files[0]).read_bytes() == b"a,b\n"

    run(body())


def test_download_failures(run: Any, stage: Stage) -> None:
    async def body() -> None:
        session = await stage.at()
        none = await failed(session, {"act": "download", "selector": "#plain"}, within=1)
        wrong = await failed(session, {"act": "download", "selector": "#file-link", "value": "other.csv"}, within=3)
        broken = await failed(session, {"act": "download", "selector": "#broken-file"}, within=3)
        missing = await failed(session, {"act": "download", "selector": "#nowhere"}, within=3, patience=0.3)
        assert [each.code for each in (none, wrong, broken)] == ["DOWNLOAD_FAILED"] * 3
        assert [each.effect for each in (none, wrong, broken)] == ["done"] * 3
        assert wrong.details["file"] == "report.csv"
        assert missing.code == "ELEMENT_NOT_FOUND"

    run(body())


def test_api_shares_cookies_with_the_page(run: Any, stage: Stage) -> None:
    async def body() -> None:
        session = await stage.at("/login", world="w-9")
        who = await passed(session, {"act": "api", "url": f"http://{SHOP}/whoami"})
        seen = who.details["body"]
        assert who.details["status"] == 200
        assert seen["host"] == SHOP
        assert set(seen["cookie"].split("; ")) == {"sid=s3cret", "b=2"}
        assert seen["user-agent"].endswith("harness-world/w-9")
        other = await passed(session, {"act": "api", "url": f"http://{OTHER}/whoami"})
        assert other.details["body"]["cookie"] is None
        await passed(session, {"act": "api", "url": f"http://{OTHER}/login"})
        await passed(session, {"act": "open", "url": f"http://{OTHER}/fetch"})
        await passed(session, {"act": "wait", "selector": "#a", "value": "sid=s3cret"})
        await passed(session, {"act": "api", "url": f"http://{OTHER}/logout"})
        after = await passed(session, {"act": "api", "url": f"http://{OTHER}/whoami"})
        assert after.details["body"]["cookie"] == "b=2"

    run(body())


def test_api_sends_json_and_text(run: Any, stage: Stage) -> None:
    async def body() -> None:
        session = await stage.session()
        url = f"http://{SHOP}/whoami"
        sent = await passed(session, {"act": "api", "url": url, "method": "POST", "value": {"a": [1, None]}})
        assert sent.details["body"]["method"] == "POST"
        assert sent.details["body"]["body"] == '{"a": [1, null]}'
        assert sent.details["body"]["content-type"] == "application/json"
        text = {"act": "api", "url": url, "method": "PUT", "value": "plain", "headers": {"Content-Type": "text/x"}}
        sent = await passed(session, text)
        assert (sent.details["body"]["body"], sent.details["body"]["content-type"]) == ("plain", "text/x")

    run(body())


def test_api_follows_redirects_and_checks_the_status(run: Any, stage: Stage) -> None:
    async def body() -> None:
        session = await stage.session()
        hop = f"http://{SHOP}/redirect?to=http://{OTHER}/whoami"
        assert (await passed(session, {"act": "api", "url": hop})).details["body"]["host"] == OTHER
        assert (await passed(session, {"act": "api", "url": hop, "status": 302})).details["status"] == 302
        missing = f"http://{SHOP}/status/404"
        assert (await passed(session, {"act": "api", "url": missing, "status": 404})).details["status"] == 404
        created = await failed(session, {"act": "api", "url": f"http://{SHOP}/whoami", "status": 201})
        assert (created.code, created.details["status"]) == ("HTTP_CLIENT_ERROR", 200)

    run(body())
