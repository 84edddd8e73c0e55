"""`[tool.harness]`: what is wrong with it is one clear line."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.model.settings import load_settings
from harness.model.settings_errors import SettingsError
from harness.spec.problems import Problem

SLIPS = {
    "tool = 4": "tool: must be a table, as in `[tool]` (found: 4)",
    "[tool]\nharness = 4": "tool.harness: must be a table, as in `[tool.harness]` (found: 4)",
    "[tool.harness]\nbrowser = 3": ("tool.harness.browser: must be a table, as in `[tool.harness.browser]` (found: 3)"),
    "[tool.harness]\nagnt = 'x'": "tool.harness: unknown key `agnt` (did you mean `agent`?)",
    "[tool.harness]\nquite-other = 1": "tool.harness: unknown key `quite-other`",
    "[tool.harness.browser]\nheadet = true": ("tool.harness.browser: unknown key `headet` (did you mean `headed`?)"),
    "[tool.harness.channels.env]\nfiel = 'x'": ("tool.harness.channels.env: unknown key `fiel` (did you mean `file`?)"),
    "[tool.harness.services.a]\nhealth = 'http://a.test/'": "tool.harness.services.a: the key `hosts` is missing",
    "[tool.harness.defaults]\nstep_timout = 3": (
        "tool.harness.defaults.step_timout: unknown key `step_timout`; did you mean `step_timeout`?"
    ),
    "[tool.harness]\ntask_workers = 'many'": (
        "tool.harness.task_workers: is neither `auto` nor a number from 1 to 100 (found: 'many')"
    ),
    "[tool.harness]\ntask_workers = 0": (
        "tool.harness.task_workers: is neither `auto` nor a number from 1 to 100 (found: 0)"
    ),
    "[tool.harness]\nbrowser_endpoint = 'ws://a'": 'tool.harness.browser_endpoint: must be a list, as in ["..."]',
    "[tool.harness]\nbrowser_endpoint = ['http://a']": (
        "tool.harness.browser_endpoint: 'http://a' (URL 1 of 1) is not a browser endpoint: "
        "expected ws://HOST:PORT/PATH or wss://HOST/PATH"
    ),
    "[tool.harness.logins.a]\ncheck_url = '/'\nholds = \"exists('a')\"\nsteps = [{use = 'in'}]": (
        "tool.harness.logins.a.steps: step groups cannot be used here: write the steps into a task file, and name it "
        "in `task` (found: [{'use': 'in'}])"
    ),
    "[tool.harness]\nisolation = 'worlds'": (
        "tool.harness.isolation: Input should be 'world', 'reset' or 'none' (found: 'worlds')"
    ),
    "[tool.harness]\nreset = ['true']": (
        "tool.harness.reset: belongs to `isolation = \"reset\"`, and here is no `isolation` (found: ['true'])"
    ),
    "[tool.harness]\nisolation = 'reset'\nparallel = true": (
        'tool.harness.parallel: belongs to `isolation = "none"`, and here is isolation = "reset" (found: True)'
    ),
    "[tool.harness]\nisolation = 'reset'\nreset = 'reset.py'": (
        'tool.harness.reset: must be a command, as in ["{python}", "reset.py"], or "module:callable" '
        "(found: 'reset.py')"
    ),
    "[tool.harness]\nisolation = 'reset'\nreset = ['sh', '-c', 'x {port} ${folder}']": (
        "tool.harness.reset: unknown placeholder `{port}` (there is: {python}; the command gets slot and ports as "
        "TASKSPEC_SLOT and TASKSPEC_HOSTS) (found: ['sh', '-c', 'x {port} ${folder}'])"
    ),
    "[tool.harness]\nisolation = 'reset'\nreset = ['{pyton}', 'a.py']": (
        "tool.harness.reset: unknown placeholder `{pyton}` (there is: {python}; the command gets slot and ports as "
        "TASKSPEC_SLOT and TASKSPEC_HOSTS) (found: ['{pyton}', 'a.py'])"
    ),
    "[tool.harness.defaults]\ntimeout = 20\nunset = ['episode']": (
        "tool.harness.defaults.unset: no task has a key `episode` (did you mean `episode_id`?)"
    ),
    "[tool.harness.defaults]\nunset = ['steps']": (
        "tool.harness.defaults.unset: `steps` belongs to each task file, and cannot be taken away"
    ),
    "[[tool.harness.defaults]]\ntimeout = 20\n[[tool.harness.defaults]]\nunset = ['timeout']\ntimeout = 30": (
        "tool.harness.defaults.1.unset: `timeout` is set in the same table: with `override = true` its value replaces "
        "that of a task"
    ),
    "[tool.harness.defaults]\nunset = 'episode_id'": 'tool.harness.defaults.unset: must be a list, as in ["..."]',
    "[tool.harness.defaults]\ntimeout = 20\nallowed_domains = {add = []}": (
        "tool.harness.defaults.allowed_domains: it adds nothing"
    ),
    "[tool.harness.defaults]\ntimeout = 20\ntags = {add = 'x'}": (
        "tool.harness.defaults.tags: wrong type; expected: a list; found: text 'x'"
    ),
    "[tool.harness.defaults]\ntimeout = 20\ngoal = {add = ['x']}": (
        "tool.harness.defaults.goal: wrong type; expected: text; found: a mapping "
        '{"add": ["x"]}; in YAML [ and { begin lists and mappings: put a text that begins with them in quotes'
    ),
    "[tool.harness.extra_keys]\na = 'tag'\nskip = {status = 'old'}": (
        'tool.harness.extra_keys.skip.status: must be a list of values or patterns, as in ["old", "deprecated_*"] '
        "(found: {'status': 'old'})"
    ),
    "[tool.harness.extra_keys]\na = 'tag'\ntag = {status = ['old']}": (
        "tool.harness.extra_keys.tag: only `skip` takes a table, of keys with the values that skip a task "
        "(found: {'a': 'tag', 'tag': {'status': ['old']}})"
    ),
    "[tool.harness.extra_keys]\nskip = {priority = ['1']}": (
        "tool.harness.extra_keys: `priority` is already a key of task files, with a meaning of its own "
        "(found: {'skip': {'priority': ['1']}})"
    ),
    "[tool.harness]\nisolation = 'world'\nworld_header = 'User-Agent'": (
        "tool.harness.world_header: is a header that the browser itself sends: "
        "choose another name, such as X-Test-World (found: 'User-Agent')"
    ),
    "[tool.harness]\nisolation = 'world'\nworld_header = 'X-W'\nworld_cookie = 'w'": (
        "tool.harness.world_cookie: `world_header` is set too: use only one of the two (found: 'w')"
    ),
}
"""What stands in pyproject.toml -> what is said of it."""


@pytest.mark.parametrize("text", SLIPS)
def test_a_slip_is_one_clear_line(tmp_path: Path, text: str) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text(text, "utf-8")
    with pytest.raises(SettingsError) as caught:
        load_settings(tmp_path)
    (problem,) = caught.value.problems
    assert isinstance(problem, Problem)
    line, column = problem.line or 0, problem.column or 0
    assert str(caught.value) == f"{file}:{line}:{column}: {SLIPS[text]}"
    assert text.splitlines()[line - 1][column - 1] != " "


def test_a_project_without_settings_has_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.other]\nharness = 1\n", "utf-8")
    assert load_settings(tmp_path, browser={"headed": True}).browser.headed


CHANNEL = "[tool.harness.channels.state]\nurl = 'http://a.test/'\n"


@pytest.mark.parametrize(
    ("text", "shared"),
    [
        ("", False),
        (CHANNEL, True),
        (CHANNEL + "readonly = true", False),
        ("[tool.harness.channels.rows]\nsqlite = 'a.db'\ntable = 't'", False),
        ("[tool.harness]\nisolation = 'world'\n" + CHANNEL, False),
        ("[tool.harness]\nisolation = 'reset'", True),
        ("[tool.harness]\nisolation = 'none'", True),
        ("[tool.harness]\nisolation = 'none'\nparallel = true\n" + CHANNEL, False),
    ],
)
def test_whether_tasks_may_meet_each_others_state(tmp_path: Path, text: str, shared: bool) -> None:
    (tmp_path / "pyproject.toml").write_text(text, "utf-8")
    assert load_settings(tmp_path).shared_state == shared
