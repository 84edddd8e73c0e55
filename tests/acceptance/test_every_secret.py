"""Forty kinds of secrets, wherever they come in, are in no output of a run, however the output spells them.

One run for each way of recording plays a handful of tasks that fail over all of them; then all that was written is
searched, with its escapes undone. Videos and screenshots are pictures, which nobody can search.
"""

from __future__ import annotations

import html
import http.server
import json
import re
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from tests.acceptance.conftest import Project
from tests.acceptance.planting import contents
from tests.acceptance.warm import warm
from tests.conftest import FULL
from tests.unit.spelling import SECRETS, spelt

KINDS = {
    name: secret
    for number, (name, secret) in enumerate(SECRETS.items())
    if name != "half a pair" and (FULL or number % 8 == 1)  # no variable can have half a pair
}
"""The kinds that a variable can hold; a quick run takes a sample."""
COMMANDS = (
    ("show", "ENV"), ("show", "TOOL", "--json"), ("triage",), ("triage", "--json"), ("history", "list"),
    ("history", "task", "ENV", "--json"), ("history", "show"), ("dashboard", "--output", "dashboard.html"),
)  # fmt: skip
TOOL = """
import json, sys
answer = json.load(open("tool.json"))
tools = [{"name": "login", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}]
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    info = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "t", "version": "1"}}
    content = {"content": [{"type": "text", "text": json.dumps(answer)}], "structuredContent": answer}
    known = {"initialize": info, "tools/list": {"tools": tools}, "tools/call": content, "ping": {}}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": known.get(asked["method"], {})}), flush=True)
"""


def of(source: str) -> dict[str, str]:
    """The secrets that come in there: each source has its own."""
    return {name: secret if source == "env" else f"{secret.strip()}-{source}" for name, secret in KINDS.items()}


ENV, TOOLS, CHANNEL, API, TYPED = of("env"), of("tool"), of("channel"), of("api"), of("typed")
COOKIE, HEADER, PATTERN, KEY = "s3ss10n-cookie-4711", "Bearer head3r-token-0815", "cust-12345678", "sk-model-key-99-Zq"


class Site(http.server.BaseHTTPRequestHandler):
    """Shows all secrets in many spellings, gives tokens, and says what it is asked to say."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if parts.path == "/login.json":
            answer = {"token": next(iter(API.values())), "accounts": [{"password": each} for each in API.values()]}
            self._answer("application/json", json.dumps(answer))
        elif parts.path == "/say":
            said = html.escape(parse_qs(parts.query).get("s", [""])[0])
            self._answer("text/html; charset=utf-8", page({"said": said}, f"<p id=said>{said}</p>"))
        else:
            shown = {"/env": ENV, "/tool": TOOLS, "/channel": CHANNEL, "/api": API}.get(parts.path, {})
            self._answer("text/html; charset=utf-8", page(shown, shown_in(shown)))

    do_POST = do_GET

    def _answer(self, mime: str, text: str) -> None:
        data = text.encode("utf-8", "replace")
        self.send_response(200)
        self.send_header("Content-Type", mime)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Set-Cookie", f"sid={COOKIE}; Path=/; HttpOnly")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: Any) -> None:
        pass


def shown_in(secrets: dict[str, str]) -> str:
    """The secrets one by one, and in other spellings; a very long one only as it is."""
    ways = [way for secret in secrets.values() for way in ([secret] if len(secret) > 999 else spelt(secret).values())]
    items = "".join(f'<li title="{html.escape(way)}">{html.escape(way)}' for way in ways)
    whole = "\n".join(f"{secret}\n" for secret in secrets.values())
    return f"<pre id=all>\n{html.escape(whole)}</pre><ul>{items}</ul><p>{COOKIE} {HEADER} {PATTERN} {KEY}</p>"


def page(secrets: dict[str, str], body: str) -> str:
    script = json.dumps(list(secrets.values())).replace("<", "\\u003c")
    return f"""<!doctype html><title>page</title>{body}<textarea id=typed></textarea><input id=field9 type=password>
<p id=echo></p><button id=go>Go</button><script>
for (const each of {script}) {{ console.log('said', each); console.error(JSON.stringify({{each}})); }}
localStorage.setItem('kept', {script}.join('|'));
field9.addEventListener('input', () => {{ echo.textContent += ' ' + field9.value.toUpperCase(); }});
typed.addEventListener('input', () => {{ echo.textContent += ' ' + typed.value; }});
fetch('/login.json', {{method: 'POST', headers: {{Authorization: '{HEADER}'}}, body: JSON.stringify({script})}});
</script>"""


@pytest.fixture
def site() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join(5)


@pytest.mark.parametrize("recording", ["auto", "full", "minimal"])
@pytest.mark.sampled(1)
def test_no_output_has_a_secret(project: Project, monkeypatch: pytest.MonkeyPatch, site: str, recording: str) -> None:
    names = {name: f"PLANTED_{number}" for number, name in enumerate(KINDS)}
    for name, variable in names.items():
        monkeypatch.setenv(variable, KINDS[name])
    monkeypatch.setenv("PLANTED_KEY", KEY)
    prepare(project)
    tasks(project, site, {name: f"${{env:{variable}}}" for name, variable in names.items()})
    where = ("--task-recording", recording, "--alluredir=allure-results", "--junitxml=junit.xml", "--task-store=store")
    result = project.run("-vv", "--task-evidence=all", *where, timeout=1500)
    result.assert_outcomes(failed=4, passed=1)
    (project.path / "terminal.txt").write_text(result.stdout.str() + result.stderr.str(), "utf-8")
    for number, command in enumerate(COMMANDS):
        done = warm().run("tests.acceptance.command", *command, cwd=project.path, timeout=120)
        assert done.returncode in (0, 1), done.stderr
        (project.path / f"command-{number}.txt").write_text(done.stdout + done.stderr, "utf-8")
    assert found_in(project.path) == []
    assert "[redacted]" in (project.path / "terminal.txt").read_text("utf-8")
    report = project.report("ENV")
    assert "[redacted]" in json.dumps(report["context"]["assertion"])


def test_events_before_the_evidence_have_no_cookie_and_no_header_of_a_page(project: Project, site: str) -> None:
    """A page shows what it has sent, and what it was given, at its first failure."""
    look = {"act": "assert", "expr": "text_content('p') == 'nothing'", "soft": True}
    project.task("EARLY", steps=[{"act": "open", "url": f"{site}/"}, look])
    result = project.run("-vv")
    result.assert_outcomes(failed=1)
    events = "".join(path.read_text("utf-8") for path in (project.path / ".harness").rglob("*.jsonl"))
    for told in (events, result.stdout.str()):
        assert "[redacted] Bearer [redacted] cust" in told, "the failure tells what the page showed"
        assert COOKIE not in told
        assert HEADER.split()[1] not in told


def prepare(project: Project) -> None:
    """The tool, the channel and the settings; what they hold is not searched."""
    (project.path / "tool.json").write_text(
        json.dumps({"password": next(iter(TOOLS.values())), "more": [{"api_key": each} for each in TOOLS.values()]})
    )
    (project.path / "tool.py").write_text(TOOL)
    (project.path / "channel.json").write_text(json.dumps({"users": [{"password": each} for each in CHANNEL.values()]}))
    (project.path / "pyproject.toml").write_text(
        """
[tool.harness]
redact = ["cust-[0-9]{8}"]
[tool.harness.tools.vault]
command = ["{python}", "tool.py"]
[tool.harness.channels.users]
file = "channel.json"
readonly = true
[tool.harness.models.m]
model = "x"
provider = "openai"
key = "${env:PLANTED_KEY}"
"""
    )


def tasks(project: Project, site: str, env: dict[str, str]) -> None:
    """One task for each way in, which fails over what came in; one that passes."""
    rules = {"on_network_error": {"max_retries": 0}, "on_element_not_found": {"wait_seconds": 0.5}}
    common: dict[str, Any] = {"step_timeout": 120, "timeout": 900, "error_recovery": rules, "expect_timeout": 0.2}
    typed = [{"act": "type", "selector": "#typed", "value": each} for each in env.values()]
    opened = {"act": "open", "url": f"{site}/env"}
    fails = {"act": "assert", "expr": "text_content('#all') == 'nothing'"}
    project.task("ENV", memory={"given": env}, inputs=env, steps=[opened, *typed, fails], **common)
    project.task("PASSED", inputs=env, steps=[opened, typed[0], {"act": "screenshot", "screenshot_id": "x"}], **common)
    passwords = [{"act": "type", "selector": "#field9", "value": each.replace("${", "$${")} for each in TYPED.values()]
    missing = {"act": "click", "selector": "#missing"}
    project.task("TYPED", steps=[{"act": "open", "url": f"{site}/"}, *passwords, missing], **common)
    kept = {"first": "result('password')", "others": "result('more')"}
    call = {"act": "tool", "server": "vault", "tool": "login", "remember": kept, "effect": "read"}
    again = {"act": "type", "selector": "#typed", "value": "${memory.first}"}
    said = {"act": "open", "url": f"{site}/say?s=${{memory.first}}"}
    shown = {"act": "assert", "expr": "mem('others') == 'nothing'"}
    steps = [{"act": "open", "url": f"{site}/tool"}, call, again, said, shown]
    project.task("TOOL", steps=steps, **common)
    look = {"act": "wait", "selector": "#all", "remember": {"them": "json('users', 'users')"}}
    asked = {"act": "api", "url": f"{site}/login.json", "headers": {"Authorization": HEADER}}
    steps = [{"act": "open", "url": f"{site}/channel"}, look, asked, {"act": "open", "url": f"{site}/api"}]
    differs = {"act": "assert", "expr": "mem('them') == 'nothing'"}
    project.task("OTHERS", steps=[*steps, again | {"value": "${memory.them[0].password}"}, differs], **common)


GIVEN = (".task.json", "tool.json", "tool.py", "channel.json", "pyproject.toml", ".png", ".jpeg", ".webm", ".pyc")


def found_in(root: Path) -> list[str]:
    """Where secrets stand in what was written, with the escapes undone; `file: secret`."""
    every = {squeezed(each) for group in (ENV, TOOLS, CHANNEL, API, TYPED) for each in group.values()}
    every |= {line for each in every for line in ()} | {COOKIE, squeezed(HEADER)[6:], PATTERN, squeezed(KEY)}
    every |= {
        squeezed(line) for each in SECRETS.values() for line in each.split("\n") if re.search(r"[-+/].*\d|==", line)
    }
    wanted = re.compile("|".join(re.escape(each) for each in sorted(every, key=len, reverse=True)).encode())
    found = []
    for path in (path for path in root.rglob("*") if path.is_file() and not path.name.endswith(GIVEN)):
        for inner, data in contents(path.read_bytes()):
            if "screencast/" in inner or (inner.endswith("!base64") and not data.isascii()):
                continue
            for view in views(data.decode("utf-8", "replace")):
                if leak := wanted.search(squeezed(view).encode("utf-8", "replace")):
                    found.append(f"{path.relative_to(root)}{inner}: {leak[0].decode('utf-8', 'replace')[:60]}")
                    break
    return found


def squeezed(text: str) -> str:
    """Without white space, and in no case: `ß` is `SS` in upper case."""
    return "".join(text.split()).casefold()


def views(text: str) -> Iterator[str]:
    """The text, and what somebody sees who undoes its escapes, again and again."""
    for _ in range(4):
        yield text
        before = text
        text = html.unescape(unquote(text))
        text = re.sub(r"\\u([0-9a-fA-F]{4})", lambda found: chr(int(found[1], 16)), text)
        text = re.sub(r"\\x([0-9a-fA-F]{2})", lambda found: chr(int(found[1], 16)), text)
        text = re.sub(r"\\([nrt])", " ", text)
        text = re.sub(r"\\(.)", r"\1", text)
        if text == before:
            return
        with suppress(UnicodeError):
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def test_the_search_finds_each_kind_in_each_spelling(tmp_path: Path) -> None:
    """Otherwise the search of the outputs would say nothing."""
    for number, secret in enumerate(ENV.values()):
        (tmp_path / f"{number}.txt").write_text(json.dumps({"x": html.escape(secret.upper())}))
    assert {leak.partition(":")[0] for leak in found_in(tmp_path)} == {path.name for path in tmp_path.iterdir()}
