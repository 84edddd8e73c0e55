"""What `[tool.harness.agents.<name>]` refuses, in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.model.agent_settings import drives_itself
from harness.model.settings import load_settings
from harness.model.settings_errors import SettingsError
from harness.resilience import SystemClock
from harness.resilience.events import discard
from harness.runner.circuits import RunCircuits

DRIVER = "[tool.harness.agents.d]\ncommand = ['x', '{cdp}']\n[tool.harness.agents.m]\nagent = 'd'\n"
"""An agent that drives the browser itself, and one that stands for it."""
OF_STEPS = (
    "policy = { writes = 'declared' }",
    "timeout = 5",
    "fallback = ['manual']",
    "fallback_if_unmet = true",
    "takeover = 'restart'",
)
BAD = [
    ("[tool.harness.agents.manual]\n", "agents.manual: `manual` is an agent of the harness"),
    ("[tool.harness.agents.scripted]\ntimeout = 3\n", "agents.scripted: `scripted` is an agent of the harness"),
    ('[tool.harness.agents.a]\nagent = "a"\n', "agents.a.agent: a -> a goes round in a circle"),
    ('[tool.harness.agents.a]\nagent = "b"\n[tool.harness.agents.b]\nagent = "a"\n', "a -> b -> a goes round"),
    ('[tool.harness.agents.a]\nagent = "scripted"\n', "a -> scripted, which takes no options"),
    ('[tool.harness.agents.a]\nagent = "b"\npython = "x:Y"\n', "`agent` and `python` both say what it is"),
    (
        '[tool.harness.agents.a]\npython = "x:Y"\nfallback = ["a"]\n',
        "agents.a.fallback: the agent `a` is there already",
    ),
    ('[tool.harness.agents.a]\npython = "x:Y"\nfallback = ["b", "b"]\n', "the agent `b` is there already"),
    ('[tool.harness.agents.a]\npython = "x:Y"\nfallback_if_unmet = true\n', "has no effect without `fallback`"),
    ('[tool.harness.agents.a]\npython = "x:Y"\nretry = 3\n', "tool.harness.agents.a.retry"),
    ('[tool.harness.agents.a]\npython = "x:Y"\ntakeover = "anew"\n', "tool.harness.agents.a.takeover"),
    ("[tool.harness.agents.a]\ncommand = []\n", "tool.harness.agents.a.command"),
    ('[tool.harness.agents.a]\ncommand = [""]\n', "must begin with the name of a program"),
    ('[tool.harness.agents.a]\ncommand = ["x"]\npython = "x:Y"\n', "`python` and `command` both say what it is"),
    ('[tool.harness.agents.a]\ncommand = ["x"]\nretry = 1\n', "`retry` has no effect on a `command`"),
    ('[tool.harness.agents.a]\ncommand = ["x"]\noptions = { y = 1 }\n', "`options` has no effect on a `command`"),
    ('[tool.harness.agents.a]\ncommand = ["x", "{promt}"]\n', "no placeholder {promt}: there is {prompt}, {mcp}"),
    ('[tool.harness.agents.a]\ncommand = ["x"]\nmodels = ["m"]\n', "agents.a.models: there is no model `m`"),
    ('[tool.harness.agents.a]\npython = "x:Y"\nmodels = ["m"]\n', "`models` has no effect without `command`"),
    ('[tool.harness.agents.a]\npython = "x:Y"\ncwd = "m"\n', "`cwd` has no effect without `command`"),
    ("[tool.harness.agents.a]\nenvironment = { M = 'm' }\n", "`environment` has no effect without `command`"),
    (
        '[tool.harness.agents.a]\ncommand = ["x"]\nenvironment = { "A=B" = "c" }\n',
        "`environment` has no variable of the name 'A=B'",
    ),
    (
        '[tool.harness.agents.a]\ncommand = ["x"]\nenvironment = { TASKSPEC_TOKEN = "c" }\n',
        "`environment.TASKSPEC_TOKEN` is set by the run",
    ),
    (
        '[tool.harness.agents.a]\ncommand = ["x"]\nenvironment = { A = "\\u0000" }\n',
        "must not contain the character NUL",
    ),
    ('[tool.harness.agents.a]\ncommand = ["x\\u0000"]\n', "`command` and `cwd` must not contain the character NUL"),
    ('[tool.harness.agents.a]\ncommand = ["x"]\ncwd = ""\n', 'agents.a: `cwd` is empty: "." is the folder'),
    ('[tool.harness.agents.bridge]\ncommand = ["x"]\n', "agents.bridge.command: `bridge` is an agent that runs elsewh"),
    (
        '[tool.harness.agents.a]\ncommand = ["x"]\n[tool.harness.agents.b]\nagent = "a"\noptions = { y = 1 }\n',
        "agents.b.options: `a` is a command, so it has no effect",
    ),
    *(
        (
            f"[tool.harness.agents.a]\ncommand = ['x', '{{cdp}}']\n{line}\n",
            f"`{line.split()[0]}` has no effect with `{{cdp}}`",
        )
        for line in OF_STEPS
    ),
    *(
        (
            f"{DRIVER}[tool.harness.agents.b]\nagent = 'm'\n{line}\n",
            f"agents.b.{line.split()[0]}: `d` drives the browser itself",
        )
        for line in OF_STEPS
    ),
    (
        f"{DRIVER}[tool.harness.agents.b]\nagent = 'm'\n[tool.harness.agents.c]\npython = 'x:Y'\nfallback = ['b']\n",
        "agents.c.fallback: `b` drives the browser itself",
    ),
    ("[tool.harness.agents.a]\ncommand = ['x', '{browser_use}']\n", "`{browser_use}` needs `{cdp}`"),
    ("[tool.harness.agents.a]\ncommand = ['x', '{cdp}', '{mcp}']\n", "`{mcp}` leads nowhere beside `{cdp}`"),
    ("[tool.harness.agents.a]\ncommand = ['x', '{cdp}', '{bridge}']\n", "`{bridge}` leads nowhere beside `{cdp}`"),
    ('[tool.harness.agents.a]\npython = "x:Y"\nbreaker = { failures = 3 }\n', "unknown key `failures`"),
]


@pytest.mark.parametrize(("text", "said"), BAD)
def test_what_cannot_be_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text, "utf-8")
    with pytest.raises(SettingsError) as caught:
        load_settings(tmp_path)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "table",
    [
        '[tool.harness.agents.a]\ncommand = ["x"]\nretry = 1\nenvironment = { KEY = "hunter2" }\n',
        '[tool.harness.agents.a]\ncommand = ["x"]\nenvironment = { KEY = ["hunter2"] }\n',
        '[tool.harness.agents.a]\ncommand = ["x"]\nenvironment = "hunter2"\n',
        '[tool.harness.agents.a]\noptions = "hunter2"\n',
        '[tool.harness]\nagents = "hunter2"\n',
        '[tool.harness.services.s]\ncommand = "x"\nhost = "h"\nready = "no"\nenvironment = { KEY = ["hunter2"] }\n',
    ],
)
def test_an_error_about_a_program_does_not_repeat_its_variables(tmp_path: Path, table: str) -> None:
    (tmp_path / "pyproject.toml").write_text(table, "utf-8")
    with pytest.raises(SettingsError) as caught:
        load_settings(tmp_path)
    assert "hunter2" not in str(caught.value)


def test_who_stands_for_a_driver_drives_the_browser(tmp_path: Path) -> None:
    """However many names are between them."""
    (tmp_path / "pyproject.toml").write_text(f"{DRIVER}[tool.harness.agents.b]\nagent = 'm'\n", "utf-8")
    agents = load_settings(tmp_path).agents
    assert [name for name in ("d", "m", "b", "e", None) if drives_itself(name, agents)] == ["d", "m", "b"]


def test_a_circuit_has_the_numbers_of_its_agent_over_those_of_all(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        "[tool.harness.breaker]\nfailure_threshold = 4\nreset_seconds = 7\n"
        '[tool.harness.agents.a]\npython = "x:Y"\nbreaker = { failure_threshold = 1 }\n'
        '[tool.harness.agents.b]\npython = "x:Y"\n',
        "utf-8",
    )
    circuits = RunCircuits(load_settings(tmp_path), SystemClock(), discard, {})
    for name, failures in (("a", 1), ("b", 4)):
        breaker = circuits.agent(name)
        assert breaker is not None
        for number in range(failures):
            assert breaker.rests_for() == 0, number
            breaker.admit().failed("boom")
        assert 6 < breaker.rests_for() <= 7
