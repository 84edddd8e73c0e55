"""The example of docs/models.md: its settings load, and its agent asks."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.model.settings import load_settings

TEXT = (Path(__file__).parents[3] / "docs" / "models.md").read_text("utf-8")


def block(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def test_the_settings_load(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(block("toml"), "utf-8")
    models = load_settings(tmp_path).models
    assert models["claude"].fallback == ("local",)
    assert models["local"].price is not None


def test_the_agent_asks(capsys: pytest.CaptureFixture[str]) -> None:
    class Models:
        async def ask(self, model: str, prompt: Any) -> Any:
            assert (model, prompt.parts, [tool.name for tool in prompt.tools]) == (
                "claude",
                ("g", "- button"),
                ["done"],
            )
            return SimpleNamespace(calls=(SimpleNamespace(arguments={"why": "it is"}),))

    async def observe() -> Any:
        return SimpleNamespace(aria="- button")

    names: dict[str, Any] = {}
    exec(block("python"), names)
    plan = SimpleNamespace(spec=SimpleNamespace(goal="g"))
    assert asyncio.run(names["Asker"](Models()).propose(plan, (), observe)) is None
    assert capsys.readouterr().out == "{'why': 'it is'}\n"


def test_every_code_of_models_is_in_the_table() -> None:
    from harness.recovery.catalog import CATALOG

    assert [code for code in CATALOG if code.startswith("MODEL_") and "CASSETTE" not in code and code not in TEXT] == []
