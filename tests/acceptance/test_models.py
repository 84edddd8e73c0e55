"""Scenarios 1 to 3 of the resilience specification, over real HTTP: an agent of a project asks models that fail."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from llmock.pytest_plugin import LLMock
from llmock.testing import LLMockServer
from msgspec import Struct
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from tests.acceptance.conftest import INI
from tests.acceptance.warm import warm

KEY = "sk-planted-9876543210"
AGENT = '''
import asyncio

from harness.model.inference import Prompt, ToolDefinition
from harness.recovery.failure import Failed

DONE = ToolDefinition("done", "The task is done.", {"type": "object", "properties": {}})


class Asker:
    """Asks what the task's inputs say: the name of a model, or a number of seconds to wait."""

    def __init__(self, models):
        self.models = models

    async def propose(self, plan, history, observe):
        for step in plan.spec.inputs["asks"]:
            if isinstance(step, str):
                await self.ask(plan, step)
            else:
                await asyncio.sleep(step)

    async def ask(self, plan, model):
        try:
            answer = await self.models.ask(model, Prompt("Rules.", (plan.spec.goal,), (DONE,)))
        except Failed as failed:
            print(f"<{plan.task_id} {model}: {failed.failure.code}>")
        else:
            print(f"<{plan.task_id} {model}: answered by {answer.call.model}, attempt {answer.call.attempt}>")
'''
STREAM = "".join(
    f"event: {document['type']}\ndata: {json.dumps(document)}\n\n"
    for document in (
        {"type": "message_start", "message": {
            "id": "m", "type": "message", "role": "assistant", "model": "claude-a", "content": [], "stop_reason": None,
            "stop_sequence": None, "usage": {"input_tokens": 40, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0,
         "content_block": {"type": "tool_use", "id": "t", "name": "done", "input": {}}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": None},
         "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    )
)  # fmt: skip
"""A whole answer of Anthropic that calls `done`."""


class Played(Struct):
    """The run of the three scenarios."""

    written: str
    retried: int
    """The requests that the first scenario's provider got."""
    mock: LLMock
    sent: dict[str, int]
    """Model -> the requests that llmock got for it."""
    folder: Path

    def said(self, task: str) -> list[str]:
        return re.findall(rf"<{task} (.*?)>", self.written)

    def circuit(self, name: str) -> list[str]:
        """The states that a circuit went to."""
        return re.findall(rf"provider:{name}\S*:? \S+ -> (\S+)", self.written)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory, llmock_server: LLMockServer) -> Any:
    mock = LLMock(llmock_server).reset()
    with HTTPServer() as flaky, HTTPServer() as dying:
        dying.expect_request("/v1/messages").respond_with_handler(_dies_after(3))
        for _ in range(2):
            flaky.expect_ordered_request("/v1/messages").respond_with_data("down", status=503)
        flaky.expect_ordered_request("/v1/messages").respond_with_response(
            Response(STREAM, mimetype="text/event-stream")
        )
        mock.fail(500, times=5, model="claude-b").fail(500, times=5, model="claude-c")
        folder = tmp_path_factory.mktemp("models")
        (folder / "pytest.ini").write_text(INI, "utf-8")
        (folder / "asker.py").write_text(AGENT, "utf-8")
        (folder / "pyproject.toml").write_text(_settings(flaky.url_for(""), dying.url_for(""), mock), "utf-8")
        _task(folder, "RETRY", ["claude-a"])
        _task(folder, "OPENS", ["claude-b"] * 6)
        for number in range(4):
            _task(folder, f"HALF-{number}", ["claude-d", "claude-d"])
        _task(folder, "RECOVERS", [*["claude-c"] * 5, 0.6, "claude-c"])
        ended = warm().run("pytest", "-v", "-s", "-p", "no:cacheprovider", cwd=folder, CLAUDE_KEY=KEY)
        retried = len(flaky.log)
    counts: dict[str, int] = {}
    for request in mock.requests:
        counts[str(request.model)] = counts.get(str(request.model), 0) + 1
    return Played(ended.stdout + ended.stderr, retried, mock, counts, folder)


def _dies_after(answers: int) -> Callable[[Request], Response]:
    """A provider that answers that many requests, and then none."""
    left = iter(range(answers))

    def answer(_: Request) -> Response:
        alive = next(left, None) is not None
        return Response(STREAM, mimetype="text/event-stream") if alive else Response("down", status=503)

    return answer


def _settings(flaky: str, dying: str, mock: LLMock) -> str:
    def claude(name: str, url: str, more: str) -> str:
        head = f'[tool.harness.models.{name}]\nprovider = "anthropic"\nmodel = "{name}"\nbase_url = "{url}"\n'
        return head + 'key = "${env:CLAUDE_KEY}"\n' + more + "\n"

    single = "retry = { retries = 0 }\n"
    return "\n".join((
        '[tool.harness.agents.asker]\npython = "asker:Asker"\n',
        claude("claude-a", flaky, "retry = { initial = 0.1, jitter = 0 }"),
        claude("claude-b", mock.base_url("anthropic"), f'{single}fallback = ["gpt"]'),
        claude("claude-d", dying, f'{single}fallback = ["gpt-other"]'),
        claude("claude-c", mock.base_url("anthropic"), f"{single}breaker = {{ reset_seconds = 0.5 }}"),
        '[tool.harness.models.gpt]\nprovider = "openai-compatible"\nmodel = "gpt-b"',
        f'base_url = "{mock.base_url("openai")}"\n',
        '[tool.harness.models.gpt-other]\nprovider = "openai-compatible"\nmodel = "gpt-other"',
        f'base_url = "{mock.base_url("openai")}"\n',
    ))  # fmt: skip


def _task(folder: Path, task_id: str, asks: list[Any]) -> None:
    document = {
        "task_id": task_id,
        "goal": f"Say done in {task_id}.",
        "inputs": {"asks": asks},
        "success_criteria": ["1 == 1"],
    }
    (folder / f"{task_id}.task.json").write_text(json.dumps(document), "utf-8")


def test_a_provider_that_is_dead_for_half_of_a_run_changes_no_task_that_its_fallback_serves(played: Played) -> None:
    said = [line for number in range(4) for line in played.said(f"HALF-{number}")]
    by = [line.partition("answered by ")[2].partition(",")[0] for line in said]
    assert sorted(by) == [*["claude-d"] * 3, *["gpt-other"] * 5], "every question was answered"


def test_retry_en_error_transitorio(played: Played) -> None:
    """Una llamada a Claude API retorna 503: se reintenta con exponential backoff, y el UI muestra "Retrying 2/3"."""
    assert played.said("RETRY") == ["claude-a: answered by claude-a, attempt 3"]
    assert played.retried == 3
    assert re.findall(r"Retrying (\d/\d in \d\.\d s): Model `claude-a` answered 503", played.written) == [
        "1/3 in 0.1 s",
        "2/3 in 0.2 s",
    ]


def test_circuit_breaker_se_abre(played: Played) -> None:
    """5 errores consecutivos en Claude API: la llamada falla inmediatamente, y se intenta el fallback (OpenAI)."""
    assert played.said("OPENS") == ["claude-b: answered by gpt, attempt 1"] * 6
    assert played.circuit("claude-b") == ["open"]
    assert played.sent["claude-b"] == 5, "the sixth question sent nothing to Claude"
    assert played.sent["gpt-b"] == 6


def test_circuit_breaker_se_recupera(played: Played) -> None:
    """Un circuit breaker en estado open: pasa el tiempo, la próxima llamada es un probe, y vuelve a closed."""
    assert played.said("RECOVERS") == [
        *["claude-c: MODEL_UNAVAILABLE"] * 5,
        "claude-c: answered by claude-c, attempt 1",
    ]
    assert played.circuit("claude-c") == ["open", "half_open", "closed"]
    assert played.sent["claude-c"] == 6


def test_an_independent_judge_finds_the_client_resilient(played: Played) -> None:
    played.mock.assert_resilient()


def test_the_key_is_written_nowhere(played: Played) -> None:
    assert KEY not in played.written
    files = [file for file in played.folder.rglob("*") if file.is_file()]
    assert [file for file in files if KEY.encode() in file.read_bytes()] == []


@pytest.mark.thorough
@pytest.mark.parametrize("options", [("--task-workers", "4"), ("-n", "2")], ids=["one process", "two processes"])
def test_nobody_asks_before_the_time_that_the_provider_has_asked_to_wait(
    tmp_path: Path, llmock_server: LLMockServer, options: tuple[str, ...]
) -> None:
    mock = LLMock(llmock_server).reset().rate_limit(retry_after=2)
    (tmp_path / "pytest.ini").write_text(INI, "utf-8")
    (tmp_path / "asker.py").write_text(AGENT, "utf-8")
    (tmp_path / "pyproject.toml").write_text(_settings(mock.url, mock), "utf-8")
    for number in range(20):
        _task(tmp_path, f"T-{number}", ["gpt"])

    ended = warm().run("pytest", "-p", "no:cacheprovider", "-q", *options, cwd=tmp_path, timeout=300)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    requests = sorted(mock.requests, key=lambda each: each.started_at)
    refused = next(each.ended_at for each in requests if each.status == 429)
    after = [each.started_at - refused for each in requests if each.started_at > refused + UNDER_WAY]
    assert len(requests) == 21
    assert after
    assert min(after) >= 2 - UNDER_WAY
    mock.assert_resilient()
    assert list((tmp_path / ".harness").glob("floors/*/*")) == []


UNDER_WAY = 0.4
"""Seconds in which a request may leave that was under way when another one was refused."""
