"""`harness import miniwob`: a project of pages with the interface of MiniWoB++, one of ours and the real ones."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import platformdirs
import pytest

from tests.acceptance.miniwob_model import RulesModel
from tests.acceptance.model_server import model_server
from tests.acceptance.warm import warm

RULES = Path(__file__).with_name("miniwob_rules.py")
CORE = """
var core = {EPISODE_MAX_TIME: 10000, EP_TIMER: null};
Math.seedrandom = seed => {
  let state = Number(seed);
  Math.random = () => (state = (state * 16807) % 2147483647) / 2147483647;
};
core.startEpisode = () => {};
core.startEpisodeReal = () => {
  genProblem();
  core.EP_TIMER = setTimeout(() => core.endEpisode(-1, false, 'timed out'), core.EPISODE_MAX_TIME);
};
core.endEpisode = (reward) => { if (core.EP_TIMER !== null) { clearTimeout(core.EP_TIMER); core.EP_TIMER = null; } };
"""
PAGE = """<!DOCTYPE html><title>Click Button</title><script src="../core/core.js"></script>
<script>
window.onload = () => core.startEpisode();
const genProblem = () => {
  const wanted = Math.random() < 0.5 ? 'Yes' : 'No';
  document.querySelector('#query').textContent = `Click on the "${wanted}" button.`;
  for (const name of ['Yes', 'No']) {
    const button = document.querySelector('#area').appendChild(document.createElement('button'));
    button.textContent = name;
    button.onclick = () => core.endEpisode(name === wanted ? 1 : -1);
  }
};
</script><div id="query"></div><div id="area"></div><p>Last reward: -</p>
"""
AGENTS = (
    '\n[tool.harness.agents.rules]\npython = "brains:Rules"\n\n[tool.harness.agents.wrong]\npython = "brains:Wrong"\n'
)
WRONG = """

class Wrong(Rules):
    async def propose(self, plan, history, observe):
        step = await super().propose(plan, history, observe)
        if step and step["act"] == "click":
            other = {"Yes": "No", "No": "Yes"}[step["selector"].split("'")[1]]
            return {"act": "click", "selector": f"#area button:text-is('{other}')"}
        return step
"""


def pages_in(folder: Path) -> Path:
    for name, text in (("core/core.js", CORE), ("miniwob/click-button.html", PAGE), ("miniwob/other.html", PAGE)):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    return folder


def imports(folder: Path, *arguments: str) -> tuple[int, str]:
    ended = warm().run("tests.acceptance.command", "import", *arguments, cwd=folder, timeout=60)
    return ended.returncode, ended.stdout + ended.stderr


def brains(project: Path) -> None:
    (project / "brains.py").write_text(RULES.read_text("utf-8") + WRONG, "utf-8")
    with (project / "pyproject.toml").open("a", encoding="utf-8") as file:
        file.write(AGENTS)


def runs(project: Path, *arguments: str) -> str:
    return warm().run("pytest", "-p", "no:cacheprovider", "tasks/", *arguments, cwd=project, timeout=600).stdout


def test_a_page_is_a_task_with_its_seed_and_its_reward(tmp_path: Path) -> None:
    pages = str(pages_in(tmp_path / "pages"))
    code, said = imports(tmp_path, "miniwob", "--pages", pages, "--seeds", "1,2", "--only", "click-button")
    assert (code, "wrote 1 page of MiniWoB++ as 2 tasks" in said) == (0, True)
    project = tmp_path / "miniwob"
    brains(project)
    assert "2 passed" in runs(project, "--agent", "rules")
    assert "2 failed" in runs(project, "--agent", "wrong")
    reports = list((project / "errors").glob("**/error_report.json"))
    assert len(reports) == 2
    assert all("failed: wrong" in file.read_text("utf-8") for file in reports)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["miniwob", "--pages", "nowhere"], "pip install --no-deps miniwob"),
        (["miniwob", "--pages", "pages", "--only", "click-buton"], "did you mean"),
        (["miniwob", "--pages", "pages", "--seeds", "one"], "expected whole numbers"),
        (["test_x.py", "--seeds", "2"], "--seeds is for `harness import miniwob`"),
    ],
)
def test_it_says_what_is_missing(tmp_path: Path, arguments: list[str], told: str) -> None:
    pages_in(tmp_path / "pages")
    (tmp_path / "test_x.py").write_text("", "utf-8")
    code, said = imports(tmp_path, *arguments)
    assert code != 0
    assert told in said
    assert not (tmp_path / "miniwob").exists()


def test_files_that_exist_stay(tmp_path: Path) -> None:
    arguments = ["miniwob", "--pages", str(pages_in(tmp_path / "pages"))]
    assert imports(tmp_path, *arguments)[0] == 0
    code, said = imports(tmp_path, *arguments)
    assert (code != 0, "--force replaces it" in said) == (True, True)
    assert imports(tmp_path, *arguments, "--force")[0] == 0


def rules_known() -> list[str]:
    """The pages for which there is a rule."""
    from tests.acceptance.miniwob_rules import RULES as KNOWN

    return list(KNOWN)


@pytest.fixture
def real_pages() -> Path:
    folder = Path(platformdirs.user_cache_dir("pytest-taskspec")) / "miniwob-1.1.0"
    if not folder.exists():
        target = ["--no-deps", "--target", str(folder), "miniwob==1.1.0"]
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", *target], check=True, timeout=300)
    return folder


@pytest.mark.thorough
def test_the_steps_of_the_rules_are_those_of_the_scripted_agent(tmp_path: Path, real_pages: Path) -> None:
    """`harness freeze` writes the steps of each page that a passed run had; then no agent is needed."""
    assert imports(tmp_path, "miniwob", "--pages", str(real_pages), "--only", ",".join(rules_known()))[0] == 0
    project = tmp_path / "miniwob"
    brains(project)
    assert f"{len(rules_known())} passed" in runs(project, "--agent", "rules", "--task-workers", "2")
    for file in sorted((project / "tasks").iterdir()):
        ended = warm().run("tests.acceptance.command", "freeze", str(file), cwd=project, timeout=60)
        assert ended.returncode == 0, ended.stdout + ended.stderr
    (project / "brains.py").write_text("class Rules: ...\nclass Wrong: ...\n", "utf-8")  # it can do nothing any more
    assert f"{len(rules_known())} passed" in runs(project, "--task-workers", "2")


@pytest.mark.thorough
def test_rules_do_more_than_thirty_of_the_real_pages(tmp_path: Path, real_pages: Path) -> None:
    known = rules_known()
    assert len(known) >= 30
    code, _ = imports(tmp_path, "miniwob", "--pages", str(real_pages), "--seeds", "1,2", "--only", ",".join(known))
    assert code == 0
    project = tmp_path / "miniwob"
    brains(project)
    assert f"{2 * len(known)} passed" in runs(project, "--agent", "rules", "--task-workers", "2")


MODEL = """
[tool.harness.models.small]
provider = "openai-compatible"
model = "m"
base_url = "{base_url}"
key = "${{env:MODEL_KEY}}"

[tool.harness.agents.model]
agent = "llm"
options = {{ model = "small", quiet = 0 }}
"""
COMPARED = ("click-button", "enter-text", "login-user", "choose-list", "read-table", "simple-algebra")


@pytest.fixture
def asks_a_model(tmp_path: Path, real_pages: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project of the pages for which there is a rule, with an agent `model` that asks a model on loopback."""
    monkeypatch.setenv("MODEL_KEY", "sk-planted")
    monkeypatch.delenv("CI", raising=False)
    assert imports(tmp_path, "miniwob", "--pages", str(real_pages), "--only", ",".join(rules_known()))[0] == 0
    project = tmp_path / "miniwob"
    brains(project)
    with model_server(RulesModel()) as server:
        with (project / "pyproject.toml").open("a", encoding="utf-8") as file:
            file.write(MODEL.format(base_url=server.base_url))
        yield project


@pytest.mark.thorough
def test_a_model_does_more_than_thirty_of_the_real_pages(asks_a_model: Path) -> None:
    said = runs(asks_a_model, "--agent", "model", "--task-workers", "2")
    assert f"{len(rules_known())} passed" in said, said


@pytest.mark.thorough
def test_the_model_and_the_rules_are_compared(asks_a_model: Path) -> None:
    files = [f"tasks/{name}.task.yaml" for name in COMPARED]
    args = ("--agents", "rules,model", "--trials", "2", "--output", "out")
    done = warm().run("tests.acceptance.command", "eval", *files, *args, cwd=asks_a_model, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((asks_a_model / "out/evaluation.json").read_text("utf-8"))
    rates = {each["agent"]: each["rate"]["share"] for each in found["cells"]}
    assert (rates["rules"], rates["model"]) == (1, 1)
    assert all(each["void"] == 0 for each in found["cells"])
    assert found["totals"][1]["models"]["calls"] > 2 * 2 * len(COMPARED)
