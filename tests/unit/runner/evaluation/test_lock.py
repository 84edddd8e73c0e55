"""What an evaluation depends on, and what is told when it has changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.model.settings import load_settings
from harness.runner.evaluation.lock import (
    BROWSER,
    Digests,
    changes,
    digests,
    lock_browser,
    project_modules,
    read_lock,
    write_lock,
)
from harness.runner.evaluation.trials import EvaluationSize, agents_attacks
from tests.unit.runner.campaign.stage import FAULTS, plan, tasks

SETTINGS = """
[tool.harness.agents.mine]
python = "mine:Mine"
[tool.harness.agents.other]
agent = "mine"
options = { a = 1 }
[tool.harness.cassettes]
mode = "replay"
"""


SIZE = EvaluationSize(2, 1)


def project(folder: Path) -> Path:
    (folder / "pyproject.toml").write_text(SETTINGS, "utf-8")
    (folder / "mine.py").write_text("import helper\nclass Mine: ...\n", "utf-8")
    (folder / "helper.py").write_text("x = 1\n", "utf-8")
    (folder / "cassettes/A").mkdir(parents=True)
    (folder / "cassettes/A/mine.jsonl").write_text("{}\n", "utf-8")
    return folder


def found(
    folder: Path, agents: tuple[str, ...] = ("mine", "other"), size: EvaluationSize = SIZE,
    faults: str | None = FAULTS, **fields: object,
) -> Digests:  # fmt: skip
    settings, loaded = load_settings(folder), plan(folder, faults) if faults else None
    return digests(agents_attacks(agents, loaded, tasks(folder, **fields), settings, "run"), size, loaded, settings)


def replaced(name: str, old: str, new: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        file = folder / name
        text = file.read_text("utf-8")
        assert old in text
        file.write_text(text.replace(old, new), "utf-8")

    return change


def test_nothing_has_changed(tmp_path: Path) -> None:
    project(tmp_path)
    before = found(tmp_path)
    write_lock(tmp_path, before)
    assert read_lock(tmp_path) == before
    assert list(changes(before, found(tmp_path))) == []


def test_another_folder_is_no_change(tmp_path: Path) -> None:
    before = {}
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        before[name] = found(project(tmp_path / name))
    told = list(changes(before["one"], before["two"]))
    assert [each for each in told if not each.startswith("task ")] == []  # only the shown path of a task differs


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (replaced("pyproject.toml", "a = 1", "a = 2"), "settings agents.other: has changed"),
        (replaced("mine.py", "...", "x = 1"), "agent mine (mine.py): has changed"),
        (lambda folder: (folder / "helper.py").write_text("x = 2"), "agent mine (helper.py): has changed"),
        (replaced("cassettes/A/mine.jsonl", "{}", "{ }"), "recording A/mine.jsonl: has changed"),
        (lambda folder: (folder / "cassettes/A/more.jsonl").touch(), "recording A/more.jsonl: is new"),
        (lambda folder: (folder / "cassettes/A/mine.jsonl").unlink(), "recording A/mine.jsonl: is gone"),
    ],
)
def test_a_change_of_a_file_is_named(tmp_path: Path, change: Callable[[Path], None], told: str) -> None:
    before = found(project(tmp_path))
    change(tmp_path)
    assert list(changes(before, found(tmp_path))) == [told]


def test_what_the_module_of_an_agent_imports_is_locked_too(tmp_path: Path) -> None:
    files = {
        "mine.py": "import json\nimport pkg.deep.inner\nfrom helper import x\n",
        "helper.py": "from pkg import sub\n",
        "pkg/__init__.py": "raise SystemExit\n",
        "pkg/sub.py": "from . import near\nfrom .deep.inner import y\nimport helper\n",
        "pkg/near.py": "def late():\n    from ..pkg import later\n",
        "pkg/later.py": "",
        "pkg/deep/__init__.py": "",
        "pkg/deep/inner.py": "this is no Python\n",
        "pkg/unused.py": "",
        "json/nothing.txt": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    found = {file.relative_to(tmp_path).as_posix() for file in project_modules("mine", tmp_path)}
    assert found == files.keys() - {"pkg/unused.py", "json/nothing.txt"}


def test_a_change_of_the_command_or_a_task_is_named(tmp_path: Path) -> None:
    before = found(project(tmp_path))
    assert list(changes(before, found(tmp_path, agents=("mine",)))) == ["--agents: was mine,other, is mine"]
    assert list(changes(before, found(tmp_path, size=EvaluationSize(3, 1)))) == ["--trials: was 2, is 3"]
    assert list(changes(before, found(tmp_path, size=EvaluationSize(2, 9)))) == ["--seed: was 1, is 9"]
    assert list(changes(before, found(tmp_path, faults=FAULTS + "goal: x\n"))) == ["the fault plan: has changed"]
    told = list(changes(before, found(tmp_path, goal="another one")))
    assert len(told) == 2
    assert all(each.startswith("task ") and each.endswith("has changed") for each in told)


def test_a_change_of_an_uploaded_file_or_a_baseline_is_named(tmp_path: Path) -> None:
    project(tmp_path)
    steps = [
        {"act": "upload", "selector": "#f", "value": ["photo.png", "note.txt"]},
        {"act": "assert", "screenshot": "card.png"},
    ]
    for name in ("photo.png", "note.txt", "card-linux.png", "other.png"):
        (tmp_path / name).write_text("1", "utf-8")
    before = found(tmp_path, steps=steps)
    for name in ("note.txt", "card-linux.png", "other.png"):
        (tmp_path / name).write_text("2", "utf-8")
    told = list(changes(before, found(tmp_path, steps=steps)))
    assert told == ["file card-linux.png: has changed", "file note.txt: has changed"]


def test_another_version_is_named(tmp_path: Path) -> None:
    before = found(project(tmp_path))
    now = {**before, "version of playwright": "9.9"}
    assert list(changes(before, now)) == [f"version of playwright: was {before['version of playwright']}, is 9.9"]


COMMANDS = """
[tool.harness.agents.mine]
command = ["bin/agent", "{prompt}", "--config=agent.toml", "no-file"]
cwd = "own"
[tool.harness.agents.other]
command = ["planted-agent", "agent.toml", "{browser_use}", "{cdp}"]
"""


def test_a_change_of_the_program_of_a_command_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").write_text(COMMANDS, "utf-8")
    for name in ("own/bin/agent", "own/agent.toml", "agent.toml", "path/planted-agent"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("1", "utf-8")
        file.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    before = found(tmp_path)
    assert {name for name in before if name.startswith("agent ")} == {
        "agent mine (bin/agent)", "agent mine (--config=agent.toml)",
        "agent other (planted-agent)", "agent other ({browser_use})",
    }  # fmt: skip
    for name in ("own/bin/agent", "own/agent.toml", "path/planted-agent"):
        (tmp_path / name).write_text("2", "utf-8")
    assert list(changes(before, found(tmp_path))) == [
        "agent mine (--config=agent.toml): has changed",
        "agent mine (bin/agent): has changed",
        "agent other (planted-agent): has changed",
    ]


def test_the_browser_of_the_first_trial_is_that_of_all(tmp_path: Path) -> None:
    write_lock(tmp_path, {"--seed": "1"})
    lock_browser(tmp_path, "")
    assert BROWSER not in read_lock(tmp_path)
    lock_browser(tmp_path, "Chromium 140.0 (/usr/bin/chromium), sandbox on")
    lock_browser(tmp_path, "Chromium 140.0 (at ws://127.0.0.1:1/)")
    assert read_lock(tmp_path) == {"--seed": "1", BROWSER: "Chromium 140.0"}
    assert list(changes(read_lock(tmp_path), {"--seed": "1"})) == []  # not known before one has started
    with pytest.raises(ValueError, match=r"browser: was Chromium 140\.0, is Chromium 141\.0"):
        lock_browser(tmp_path, "Chromium 141.0 (/usr/bin/chromium), sandbox on")


def test_a_file_that_is_no_lock(tmp_path: Path) -> None:
    (tmp_path / "lock.json").write_text("[]", "utf-8")
    with pytest.raises(ValueError, match=r"lock\.json: is no lock file of an evaluation"):
        read_lock(tmp_path)
