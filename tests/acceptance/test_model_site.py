"""The demo's model site as the providers' own clients see it: OpenAI's, Anthropic's and pydantic-ai.

The clients are imported where they are used: they are large, and each worker of the suite imports this module.
"""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

import pytest
from pydantic_ai import ModelHTTPError
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from harness.demo.models.brain import SENTENCES, read_script
from tests.acceptance.documented import ROOT, blocks

if TYPE_CHECKING:
    import anthropic
    import openai

KEY = "demo-model-key"
MODEL = "scripted-fast"
SCHEMA = {
    "type": "object",
    "properties": {"element": {"type": "string"}, "target": {"type": "string"}},
    "required": ["element", "target"],
}
PROMPT = """\
goal: Return the defective mouse of order O-10001.
1. open http://shop.local/orders -> passed
- main [ref=e1]:
  - link "O-10001" [ref=e3]
"""
SAID = "Next: click link 'O-10001'."
CALLED = {"element": 'link "O-10001"', "target": "e3"}
TOKENS = 22
"""7 for the text, 15 for the call, of four bytes each."""

Said = tuple[str, Mapping[str, Any] | None, str | None, int | None]
"""Text, arguments of the call, why the answer ended, output tokens."""


def chat(client: openai.OpenAI, *, stream: bool, **more: Any) -> Said:
    tool = {"type": "function", "function": {"name": "browser_click", "parameters": SCHEMA}}
    asked = {"model": MODEL, "messages": [{"role": "user", "content": PROMPT}], "tools": [tool], **more}
    if not stream:
        answer = client.chat.completions.create(**asked)
    else:
        with client.chat.completions.stream(**asked, stream_options={"include_usage": True}) as events:
            answer = events.get_final_completion()
    choice = answer.choices[0]
    calls = choice.message.tool_calls
    assert answer.usage
    arguments = json.loads(calls[0].function.arguments) if calls else None
    return choice.message.content or "", arguments, choice.finish_reason, answer.usage.completion_tokens


def responses(client: openai.OpenAI, *, stream: bool, **more: Any) -> Said:
    tool = {"type": "function", "name": "browser_click", "parameters": SCHEMA, "strict": False}
    asked: dict[str, Any] = {"model": MODEL, "input": PROMPT, "tools": [tool], **more}
    if not stream:
        answer = client.responses.create(**asked)
    else:
        with client.responses.stream(**asked) as events:
            answer = events.get_final_response()
    calls = [json.loads(item.arguments) for item in answer.output if item.type == "function_call"]
    assert answer.usage
    return answer.output_text, calls[0] if calls else None, answer.status, answer.usage.output_tokens


def messages(client: anthropic.Anthropic, *, stream: bool, **more: Any) -> Said:
    tool = {"name": "browser_click", "input_schema": SCHEMA}
    asked: dict[str, Any] = {
        "model": MODEL,
        "max_tokens": 1000,
        "messages": [{"role": "user", "content": PROMPT}],
        "tools": [tool],
        **more,
    }
    if not stream:
        answer = client.messages.create(**asked)
    else:
        with client.messages.stream(**asked) as events:
            answer = events.get_final_message()
    text = "".join(block.text for block in answer.content if block.type == "text")
    calls = [block.input for block in answer.content if block.type == "tool_use"]
    return text, calls[0] if calls else None, answer.stop_reason, answer.usage.output_tokens


@pytest.fixture(scope="module")
def address(sites: dict[str, int]) -> str:
    return f"http://127.0.0.1:{sites['models.local']}"


@pytest.fixture(scope="module")
def gpt(address: str) -> openai.OpenAI:
    import openai

    return openai.OpenAI(api_key=KEY, base_url=f"{address}/v1", max_retries=0)


@pytest.fixture(scope="module")
def claude(address: str) -> anthropic.Anthropic:
    import anthropic

    return anthropic.Anthropic(api_key=KEY, base_url=address, max_retries=0)


STREAM = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@STREAM
def test_the_official_clients_get_a_text_a_call_and_what_it_cost(
    gpt: openai.OpenAI, claude: anthropic.Anthropic, stream: bool
) -> None:
    assert chat(gpt, stream=stream) == (SAID, CALLED, "tool_calls", TOKENS)
    assert responses(gpt, stream=stream) == (SAID, CALLED, "completed", TOKENS)
    assert messages(claude, stream=stream) == (SAID, CALLED, "tool_use", TOKENS)


@STREAM
def test_without_tools_or_with_few_tokens_the_answer_is_text(
    gpt: openai.OpenAI, claude: anthropic.Anthropic, stream: bool
) -> None:
    assert chat(gpt, stream=stream, tool_choice="none")[:3] == (SAID, None, "stop")
    assert responses(gpt, stream=stream, tool_choice="none")[:3] == (SAID, None, "completed")
    assert messages(claude, stream=stream, tool_choice={"type": "none"})[:3] == (SAID, None, "end_turn")
    if not stream:  # the client knows no end of a stream but a complete answer
        assert responses(gpt, stream=False, max_output_tokens=3) == (SAID[:12], None, "incomplete", 3)
    assert messages(claude, stream=stream, max_tokens=3) == (SAID[:12], None, "max_tokens", 3)


def test_a_dialogue_is_understood_too(gpt: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    """The calls of the dialogue are its history, and the result of the last one shows the page."""
    url, goal = "http://shop.local/orders", PROMPT.splitlines()[0]
    page = PROMPT[PROMPT.index("- main") :]
    call = {
        "id": "1",
        "type": "function",
        "function": {"name": "browser_navigate", "arguments": json.dumps({"url": url})},
    }
    said = [
        {"role": "user", "content": goal},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": page},
    ]
    assert chat(gpt, stream=False, messages=said)[1] == CALLED
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": goal}]},
        {"type": "function_call", "call_id": "1", "name": "browser_navigate", "arguments": json.dumps({"url": url})},
        {"type": "function_call_output", "call_id": "1", "output": page},
    ]
    assert responses(gpt, stream=False, input=items)[1] == CALLED
    use = {"type": "tool_use", "id": "1", "name": "browser_navigate", "input": {"url": url}}
    result = {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": page}]}
    blocks = [
        {"role": "user", "content": goal},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [result]},
    ]
    assert messages(claude, stream=False, messages=blocks)[1] == CALLED
    failed = [blocks[0], blocks[1], {"role": "user", "content": [result | {"is_error": True}]}]
    assert "Next: open http://shop.local/orders." in messages(claude, stream=False, messages=failed)[0]


def test_the_input_tokens_are_counted_from_the_request(gpt: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    def count(text: str) -> int:
        answer = gpt.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": text}])
        assert answer.usage
        assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
        return answer.usage.prompt_tokens

    assert count("x" * 4000) == 1003
    assert count("x" * 8000) == 2003
    sent = claude.messages.create(
        model=MODEL, max_tokens=99, system="y" * 400, messages=[{"role": "user", "content": "x" * 4000}]
    )
    assert sent.usage.input_tokens == 1106


def test_the_same_request_gets_the_same_answer(gpt: openai.OpenAI) -> None:
    def ask() -> str:
        return gpt.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": PROMPT}]).to_json()

    assert ask() == ask()


def test_the_models_are_listed(gpt: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    names = ["scripted-fast", "scripted-clumsy", "scripted-weak", "scripted-small"]
    assert [model.id for model in gpt.models.list()] == names
    assert [model.id for model in claude.models.list()] == names


def test_below_keyless_any_key_will_do(gpt: openai.OpenAI, claude: anthropic.Anthropic, address: str) -> None:
    assert chat(gpt.with_options(base_url=f"{address}/keyless/v1", api_key="none"), stream=False)[1] == CALLED
    assert messages(claude.with_options(base_url=f"{address}/keyless", api_key="none"), stream=True)[1] == CALLED


def test_errors_have_the_shape_of_the_provider(gpt: openai.OpenAI, claude: anthropic.Anthropic, address: str) -> None:
    import anthropic
    import openai

    ways: list[tuple[Callable[..., Said], Any, Any]] = [(chat, gpt, openai), (responses, gpt, openai)]
    for ask, client, sdk in [*ways, (messages, claude, anthropic)]:
        with pytest.raises(sdk.AuthenticationError, match="The API key is wrong"):
            ask(client.with_options(api_key="another"), stream=False)
        with pytest.raises(sdk.NotFoundError, match="`gpt-9` does not exist"):
            ask(client, stream=False, model="gpt-9")
        said = "input" if ask is responses else "messages"
        with pytest.raises(sdk.BadRequestError, match="not the shape of a request"):
            ask(client, stream=False, **{said: [{"role": 1}]})
        long = [{"role": "user", "content": "x" * 40_000}]
        with pytest.raises(sdk.BadRequestError, match=r"maximum context length is 4000|prompt is too long: 10"):
            ask(client, stream=True, model="scripted-small", **{said: long})
    with pytest.raises(anthropic.BadRequestError, match="max_tokens: Field required"):
        messages(claude, stream=False, extra_body={"max_tokens": None})
    with pytest.raises(openai.BadRequestError) as raised:
        chat(gpt, stream=False, model="scripted-small", messages=[{"role": "user", "content": "x" * 40_000}])
    assert raised.value.code == "context_length_exceeded"


def providers(address: str, name: str = MODEL) -> dict[str, Model]:
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.anthropic import AnthropicProvider
    from pydantic_ai.providers.openai import OpenAIProvider

    known = OpenAIProvider(base_url=f"{address}/v1", api_key=KEY)
    return {
        "chat": OpenAIChatModel(name, provider=known),
        "responses": OpenAIResponsesModel(name, provider=known),
        "messages": AnthropicModel(name, provider=AnthropicProvider(base_url=address, api_key=KEY)),
    }


@STREAM
@pytest.mark.parametrize("name", ["chat", "responses", "messages"])
@pytest.mark.sampled(3)
def test_pydantic_ai_gets_the_same(address: str, name: str, stream: bool) -> None:
    tools = ModelRequestParameters(
        function_tools=[ToolDefinition(name="browser_click", parameters_json_schema=SCHEMA)], allow_text_output=False
    )

    async def ask() -> ModelResponse:
        model, asked = providers(address)[name], [ModelRequest.user_text_prompt(PROMPT)]
        if not stream:
            return await model_request(model, asked, model_request_parameters=tools)
        async with model_request_stream(model, asked, model_request_parameters=tools) as events:
            async for _ in events:
                pass
            return events.get()

    answer = asyncio.run(ask())
    assert [part.content for part in answer.parts if isinstance(part, TextPart)] == [SAID]
    assert [part.args_as_dict() for part in answer.parts if isinstance(part, ToolCallPart)] == [CALLED]
    assert answer.usage.output_tokens == TOKENS
    assert answer.usage.input_tokens > TOKENS


@pytest.mark.parametrize("name", ["chat", "responses", "messages"])
def test_pydantic_ai_recognises_the_errors(address: str, name: str) -> None:
    async def ask(text: str, model: str) -> None:
        await model_request(providers(address, model)[name], [ModelRequest.user_text_prompt(text)])

    with pytest.raises(ModelHTTPError) as missing:
        asyncio.run(ask("x", "gpt-9"))
    assert missing.value.status_code == 404
    with pytest.raises(ModelHTTPError) as long:
        asyncio.run(ask("x" * 40_000, "scripted-small"))
    assert "Context" in type(long.value).__name__, type(long.value)


def test_the_documented_request_gets_the_documented_answer(address: str) -> None:
    text = (ROOT / "docs/demo.md").read_text("utf-8")
    command = next(line for line in text.splitlines() if line.startswith("curl "))
    words = shlex.split(command)
    headers = dict(word.split(": ") for option, word in pairwise(words) if option == "-H")
    request = Request(words[1].replace("http://127.0.0.1:8479", address), words[-1].encode(), headers)
    with urlopen(request) as answer:
        said = json.load(answer)["choices"][0]["message"]["content"]
    assert f"The answer contains `{said}`" in text


def test_the_documented_script_can_be_read(tmp_path: Path) -> None:
    (script,) = [block for block in blocks(ROOT / "docs/demo.md", "yaml") if "lines:" in block]
    (tmp_path / "documented.yaml").write_text(script)
    shown = read_script(tmp_path / "documented.yaml")
    assert all(any(form.match(line.text) for line in shown.lines) for form in SENTENCES)
