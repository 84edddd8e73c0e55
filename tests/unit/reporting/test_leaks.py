"""No artifact shows a secret, nor its beginning, whatever it consists of and however a writer cuts and escapes it."""

from __future__ import annotations

import html
import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus, unquote, unquote_plus

from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness.browser.failures.scene import shortened as scene_shortened
from harness.criteria import difference
from harness.criteria.texts import in_sentence
from harness.environment.world import Difference
from harness.model.plan import Plan
from harness.model.ports import Evidence, Item, Snapshot
from harness.model.record import Score, ScorePart, TaskResult
from harness.recovery.failure import Assertion, Failure
from harness.reporting.allure.sink import step_results
from harness.reporting.archive import DirectoryArchive
from harness.reporting.attachments import on_failing_step, on_test
from harness.reporting.redaction import Redactor
from harness.reporting.task_record import task_record
from harness.reporting.telling import story_of
from harness.values import replace
from tests.unit.conftest import examples
from tests.unit.reporting import sample
from tests.unit.reporting.sample import brief, failure_text, headline
from tests.unit.reporting.test_har import har

PREFIX = 10
"""Letters of a secret's beginning that nothing may show."""

LETTERS = st.characters(codec="utf-8", exclude_categories=("Cs",), exclude_characters="[]")
SECRETS = st.one_of(
    st.text(LETTERS, min_size=3, max_size=40),
    st.text(LETTERS, min_size=100, max_size=400),
    st.lists(st.text("kqxz'\"\\&=%+#?é<>-$", min_size=2, max_size=30), min_size=2, max_size=12).map(" ".join),
    st.lists(st.text("kqxzKQXZ", min_size=10, max_size=64), min_size=2, max_size=8).map("\n".join),
    st.text("kqxzKQXZ0-_.", min_size=40, max_size=400),
).filter(lambda secret: _telling("".join(secret.split())))


def _telling(letters: str) -> bool:
    """Whether its beginning is found nowhere else: not in its own end, nor in what any report says."""
    beginning = letters[:PREFIX]
    return len(set(beginning)) > 3 and letters.count(beginning) == 1 and beginning not in _said_anyway()


@cache
def _said_anyway() -> str:
    """All that the artifacts of a task with another secret say, blanks left out: also the keys of a report."""
    folder = Path(tempfile.mkdtemp())
    try:
        views = [view for _, text in _artifacts(folder, "\u2603" * PREFIX) for view in _views(text)]
    finally:
        shutil.rmtree(folder)
    return "".join("\0".join(views).split())


@settings(max_examples=examples(50), deadline=None)
@given(SECRETS)
@example("p@ss wörd&\"<x>/é+1=it's")
@example("sk-" + "A1b2C3d4E5" * 32)
@example("correct horse battery staple - of the seventh floor, and of many others, beyond the hill\nand the river")
def test_no_artifact_shows_a_secret(secret: str) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        leaks = [name for name, text in _artifacts(folder, secret) if _shows(text, secret)]
    finally:
        shutil.rmtree(folder)
    assert leaks == []


def _shows(text: str, secret: str) -> bool:
    letters = "".join(secret.split())
    wanted = letters[:PREFIX]
    if len(letters) < PREFIX:
        return secret in text
    return any(wanted in "".join(view.split()) for view in _views(text))


def _views(text: str) -> Iterator[str]:
    """What somebody sees who undoes the escaping, or joins broken lines."""
    yield from (text, html.unescape(text), unquote(text), unquote_plus(text))
    yield re.sub(r"\n\s*[-+]", "", text)
    try:
        yield from _strings(json.loads(text))
    except ValueError:
        return


def _strings(document: Any) -> Iterator[str]:
    if isinstance(document, dict):
        document = [part for pair in document.items() for part in pair]
    if isinstance(document, list):
        for item in document:
            yield from _strings(item)
    else:
        yield str(document)


def _artifacts(folder: Path, secret: str) -> Iterator[tuple[str, str]]:
    """Name and content of all that is written of a task that failed over its secret."""
    plan, redactor = _plan(secret), Redactor([secret])
    result = _result(plan, secret)
    archive = DirectoryArchive(folder, "run-1", Redactor(), 1)
    evidence = _evidence(archive.scratch(plan), secret)
    assert result.error is not None
    kept = archive.keep(plan, result, result.error, evidence, Snapshot({"k": secret}, {"env": {secret: [secret]}}))
    yield from ((path.name, path.read_text("utf-8")) for path in kept.rglob("*") if path.is_file())
    for width in (60, 100, 133):
        yield f"terminal {width}", failure_text(plan, result, width)
    yield from (("brief", brief(plan, result)), ("headline", headline(plan, result)))
    story = story_of(plan, result, redactor)
    yield "last-run.json", task_record(story).model_dump_json()
    for _, step in step_results(story.steps, story.started):
        yield from (("step", text) for text in (step.name, *(p.value for p in step.parameters)))
        yield from (("step", each.statusDetails.message) for each in (step, *step.steps) if each.statusDetails)
        yield from (("attempt", attempt.name) for attempt in step.steps)
    for content in (*on_test(story), *on_failing_step(story)):
        yield content.name, content.data


def _plan(secret: str) -> Plan:
    steps = [
        {"act": "open", "url": f"http://shop.local/x?k={secret}"},
        {"act": "type", "selector": "#f", "value": secret},
        {"act": "click", "selector": f"#x-{secret}"},
        {"act": "wait", "selector": "#y", "value": secret},
    ]
    return sample.plan(steps=steps, secrets=(secret,))


def _result(plan: Plan, secret: str) -> TaskResult:
    """It says the secret wherever a task can, shortened as the browser, the criteria and the world do."""
    changed = Difference("env", ("a", secret), "nothing", f"it is {secret}")
    memory = f"mem('pw') is {in_sentence(secret)}, {in_sentence({'pw': secret})}"
    message = f"{memory}; wait with text {scene_shortened(secret)!r}; {changed}"
    expected, actual = {"pw": "nothing"}, {"pw": secret, "more": [f"and {secret}"]}
    assertion = Assertion(f"mem('pw') == {secret!r}", expected, actual, difference(expected, actual))
    result = sample.failed(plan, Failure("ASSERTION_FAILED", message, "#y", assertion=assertion), 3, attempts=2)
    parts = (ScorePart("p", f"part {secret}", 1, False, reason=message),)
    return replace(result, score=Score(0, parts, {secret: 0.5}))


def _evidence(folder: Path, secret: str) -> Evidence:
    seen = re.sub("[\t\r\n]", "", secret)
    asked = quote(seen.partition("#")[0], safe="!$&()*+,/:;=?@[]\\^`{|}~%")
    request = {
        "method": "POST",
        "url": f"http://x.local/{quote(seen)}?v={quote_plus(secret)}&k={asked}",
        "headers": [{"name": "Referer", "value": f"http://x.local/?k={quote(secret, safe='')}"}],
        "queryString": [
            {"name": name, "value": value} for name, value in parse_qsl(f"k={seen}", keep_blank_values=True)
        ],
        "postData": {
            "mimeType": "application/x-www-form-urlencoded",
            "text": f"k={secret}",
            "params": [
                {"name": name, "value": value} for name, value in parse_qsl(f"k={secret}", keep_blank_values=True)
            ],
        },
    }
    content = {"mimeType": "application/json", "text": json.dumps({"a": json.dumps([secret])})}
    document = har(request=request, response={"status": 200, "content": content, "headers": []}, comment=secret)
    (folder / "network_logs.har").write_text(json.dumps(document), "utf-8")
    page = f'<p>{html.escape(secret)}</p><input value="{html.escape(secret, quote=False).replace(chr(34), "&quot;")}">'
    (folder / "dom_snapshot.html").write_bytes(page.encode())
    names = ("network_logs.har", "dom_snapshot.html", "console_logs.txt")
    lines = (f"[ERROR] said {secret} (http://x.local/)", f"[ERROR] {json.dumps(secret)}")
    return Evidence(folder, tuple(Item(name, "taken") for name in names), f"http://x.local/{seen}", lines)
