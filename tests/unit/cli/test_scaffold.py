"""What `harness new` writes is sound as it is."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from harness.cli.demo import free_ports, settings_text
from harness.cli.new import demo_task, isolated, site_task
from harness.demo import VERSION
from harness.demo.server import HOSTS
from harness.model.settings import Settings
from harness.spec.advice import advice
from harness.spec.load import load_file
from harness.spec.names import host_of

ROOT = Path(__file__).parents[3]
SCHEMA = "../schemas/task_spec.schema.json"


@pytest.mark.parametrize("name", ["my-first", "007", "true", "1.5", "a.b_c"])
@pytest.mark.parametrize("url", [None, "http://127.0.0.1:8000/", "https://shop.example/?q=%22${x}&it's"])
def test_it_loads_without_a_warning(tmp_path: Path, name: str, url: str | None) -> None:
    path = tmp_path / f"{name}.task.yaml"
    text = site_task(name, path.name, SCHEMA, url, host_of(url)) if url else demo_task(name, path.name, SCHEMA)
    path.write_text(text, "utf-8")
    task = load_file(path, known_channels=frozenset({"env"}))
    assert task.spec.task_id == name
    assert task.spec.checkpoints
    assert task.spec.success_criteria
    assert [*task.warnings, *advice(task)] == []
    assert text.startswith(f"# yaml-language-server: $schema={SCHEMA}\n")
    assert "@" not in text


def test_a_file_name_is_no_pattern() -> None:
    assert "#   harness run tasks/@HOST@.task.yaml" in demo_task("x", "tasks/@HOST@.task.yaml", SCHEMA)


def test_the_settings_are_those_of_the_demo_sites() -> None:
    table = tomllib.loads(settings_text(free_ports()))["tool"]["harness"]
    settings = Settings.model_validate(table)
    assert list(settings.services["demo"].hosts) == list(HOSTS)
    assert set(settings.services["demo"].declared.values()) == {"auto"}, "each run starts its own"
    assert settings.channels["env"].clock == "world.now"
    shipped = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["harness"]
    assert table["services"]["demo"] == shipped["services"]["demo"], "what `harness demo` prints is what is tested here"
    assert (table["channels"]["env"], table["isolation"]) == (shipped["channels"]["env"], shipped["isolation"])
    assert settings.services["demo"].identity["version"] == VERSION


@pytest.mark.parametrize(
    ("before", "added"),
    [
        ("[tool.harness]  # ours\nheal = false\n", True),
        ("[tool.harness]\nisolation = 'reset'\n", False),
        ("[tool.harness]\n\n[tool.harness.channels.mine]\nfile = 'a.json'\n", False),
        ("[tool.other]\n", False),
    ],
)
def test_the_isolation_of_the_demo_sites_goes_into_a_table_that_is_there(before: str, added: bool) -> None:
    """Never over what the project declares, nor where a channel of its own may know of no worlds."""
    after = isolated(before)
    assert (after != before) == added
    assert not added or tomllib.loads(after)["tool"]["harness"] == {"isolation": "world", "heal": False}


def test_a_channel_that_is_there_is_left_out() -> None:
    assert "channels" not in tomllib.loads(settings_text({"world.local": 1}, channel=False))["tool"]["harness"]
