"""What is legal and unwise: each rule finds its case, and is silent beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.spec.advice import advice
from harness.spec.load import find_tasks, load_file
from tests.unit.spec.files import loaded

ROOT = Path(__file__).parents[3]
START = "task_id: T\n"
OPEN = "  - {act: open, url: 'http://x/'}\n"
HEAD = START + "steps:\n" + OPEN + "  - {act: wait, selector: '#a'}\n"
FINE = "success_criteria: [\"exists('#done')\"]\n"


def told(folder: Path, text: str) -> list[str]:
    """`line:column path: message`, of each warning."""
    found = list(advice(loaded(folder, text)))
    assert all(problem.severity == "warning" for problem in found)
    return [f"{problem.line}:{problem.column} {problem.path}: {problem.message}" for problem in found]


def steps(*lines: str, more: str = "") -> str:
    return (
        START
        + ("" if "expect: {final_state: " in more else FINE)
        + more
        + "steps:\n"
        + OPEN
        + "".join(f"  - {line}\n" for line in lines)
    )


def rules(text: str, more: str = "", act: str = "{act: wait, selector: '#a'}") -> str:
    """A task with these lines under `error_recovery`."""
    return steps(act, more=f"{more}error_recovery:\n  {text}\n")


WAIT = "{act: wait, selector: '#a'}"
ENABLED = "fallback_plan: {enabled: true, relaxed_success_criteria: [\"count('#a') > 0\"]}\n"
SCORED = "scoring_checkpoints: [{id: a, assertion: \"mem('k') == 1\"}]\n"
CASES = "parametrize: {n: [1, 2]}\n"
BOUND = "state_bindings: {k: env.k}\n"
SHORT = "timeout: 20\nstep_timeout: 5\n"
ONLY_X = "allowed_domains: [x]\n"
REPAIRED = "error_recovery: {on_precondition_fail: attempt_repair}\n"
READS = "{act: type, selector: '#a', value: '${memory.nope}'}"
REMEMBER = "{act: wait, selector: '#a', remember: {k: \"text('#a')\"}}"

UNWISE = {
    # criteria
    "not-judged": (
        START + FINE + "expect: {final_state: aborted, code: HTTP_NOT_FOUND}\nsteps:\n" + OPEN,
        "2:1 success_criteria: never judged: the task must fail before",
    ),
    # writes
    "submit": (steps("{act: submit, selector: form}"), "5:5 steps[1]: a `write` without `done_when`"),
    "post": (steps("{act: api, url: 'http://x/', method: POST}"), "a `write` without `done_when`"),
    "declared": (steps("{act: click, selector: '#a', effect: write}"), "a `write` without `done_when`"),
    "repairing": (
        START + FINE + "preconditions: [\"mem('k') == 1\"]\nerror_recovery: {on_precondition_fail: attempt_repair}\n"
        "repairs:\n  - steps: [{act: submit, selector: form}]\nsteps:\n" + OPEN,
        "repairs[0].steps[0]: a `write` without",
    ),
    "dialog-last": (
        steps("{act: dialog, value: dismiss}"),
        "5:5 steps[1]: this is the last step, so no dialog follows it",
    ),
    # criteria
    "no-criteria": (START + "steps:\n" + OPEN, "1:1 success_criteria: no `success_criteria`"),
    "empty-criteria": (START + "success_criteria: []\nsteps:\n" + OPEN, "2:1 success_criteria: no `success_criteria`"),
    "precondition": (
        HEAD + "preconditions: [\"count('a')  >  0\"]\nsuccess_criteria:\n  - \"count('a') > 0\"\n",
        "7:5 success_criteria[0]: true before the first step: it is a precondition too",
    ),
    "memory": (
        HEAD + "memory: {k: 1}\nsuccess_criteria: [\"mem('k') == 1\"]\n",
        "memory has this value already, and no step changes it",
    ),
    "absent": (HEAD + "success_criteria: [\"mem('k') == null\"]\n", "memory has this value already"),
    "alternatives": (
        HEAD + "memory: {k: 1}\nsuccess_criteria: [\"ANY[mem('k') == 1, exists('#a')]\"]\n",
        "memory has this value already",
    ),
    "constant": (HEAD + "success_criteria: ['1 < 2']\n", "it always holds"),
    "from-inputs": (
        HEAD + "inputs: {n: 3}\nmemory: {k: '${inputs.n}'}\nsuccess_criteria: [\"mem('k') == ${inputs.n}\"]\n",
        "memory has this value already",
    ),
    "scored": (HEAD + FINE + "memory: {k: 1}\n" + SCORED, "scoring_checkpoints[0].assertion: true before"),
    "length-in-a-path": (
        HEAD + "success_criteria: [\"json('x', 'a.list.length') == 3\"]\n",
        "success_criteria[0]: `json('x', 'a.list.length')` looks for a key that is called `length`",
    ),
    "size-of-memory": (steps("{act: assert, expr: \"mem('cart.size()') > 1\"}"), "a key that is called `size()`"),
    "remembered-length": (
        steps("{act: wait, selector: '#a', remember: {n: \"json('x', 'list.length')\"}}"),
        "called `length`",
    ),
    "json-path": (HEAD + "success_criteria: [\"json('x', '$.list[0]') == 3\"]\n", "a key that is called `$`"),
    # selectors
    "own-fallback": (
        rules("on_element_not_found: {fallback_selectors: {'#a': ['#b', '#a']}}"),
        "fallback_selectors['#a'][1]: the selector is its own fallback",
    ),
    "same-fallback": (
        rules("on_element_not_found: {fallback_selectors: {'#a': ['#b', '#b']}}"),
        "this fallback appears twice",
    ),
    "unused-fallback": (
        rules("on_element_not_found: {fallback_selectors: {'#x': ['#b']}}"),
        "4:47 error_recovery.on_element_not_found.fallback_selectors['#x']: no step uses this selector",
    ),
    # limits
    "step-limit": (
        steps("{act: wait, selector: '#a', timeout: 40}", more=SHORT),
        "timeout: 40 s is longer than the task",
    ),
    "step_timeout": (steps(WAIT, more="timeout: 10\nstep_timeout: 11\n"), "4:15 step_timeout: 11 s is longer than"),
    "wait_seconds": (rules("on_element_not_found: {wait_seconds: 6}", SHORT), "6 s is longer than any step may take"),
    "retries": (
        rules("on_network_error: {max_retries: 2, retry_delay_ms: 10000}", SHORT),
        "add up to 20 s, and the task may take 20 s",
    ),
    "assertion-wait": (
        rules("on_assertion_fail: {strategy: retry_after_wait, wait_before_retry_seconds: 30}", SHORT),
        "wait_before_retry_seconds: the waits before its retries add up to 30 s",
    ),
    "long-wait": (steps("{act: wait, value: 5}", more=SHORT), "never ends within `step_timeout` (5 s)"),
    "long-wait-own": (steps("{act: wait, value: 3, timeout: 2}"), "never ends within the step's `timeout` (2 s)"),
    "budget": (steps(WAIT, more=SHORT + "budget: {max_seconds: 30}\n"), "budget.max_seconds: 30 s is longer than"),
    "few-steps": (steps(WAIT, more="budget: {max_steps: 1}\n"), "the task has 2 steps and may begin 1"),
    "fault": (
        steps(WAIT, more=SHORT + "faults: [{kind: refuse, host: x, seconds: 30}]\n"),
        "faults[0].seconds: the fault lasts 30 s, the task at most 20 s",
    ),
    # checkpoints
    "unreachable": (
        rules("on_timeout: retry_from_checkpoint", "checkpoints: [1, 2]\n"),
        "3:18 checkpoints[1]: never taken: there is no step 2",
    ),
    "no-checkpoint": (rules("on_timeout: retry_from_checkpoint"), "there is no checkpoint to go back to"),
    "unused-checkpoint": (rules("on_browser_crash: abort", "checkpoints: [1]\n"), "nothing goes back to them"),
    "twice": (steps(WAIT, more="checkpoints: [1, 1]\n"), "checkpoints[1]: step 1 appears twice"),
    # settings without effect
    "no-repairs": (rules("on_precondition_fail: attempt_repair"), "the task has no `repairs`"),
    "no-bindings": (rules("on_state_inconsistency: trust_env"), "the task has no `state_bindings`"),
    "never-compared": (steps(WAIT, more=BOUND), "state_bindings.k: never compared"),
    "not-enabled": (steps(WAIT, more=ENABLED.replace("true", "false")), "fallback_plan: not enabled"),
    "enabled-empty": (steps(WAIT, more="fallback_plan: {enabled: true}\n"), "the plan is enabled, but"),
    "metric": (steps(WAIT, more="rubrics: {SR: 1.0, speed: 1.0}\n"), "rubrics.speed: there is no metric `speed`"),
    # promises
    "memory_keys": (steps(WAIT, more="memory_keys: [k]\n"), "3:15 memory_keys[0]: no step remembers it"),
    "artifacts": (steps(WAIT, more="artifacts: [a.txt]\n"), "artifacts[0]: no step keeps a file of this name"),
    # domains
    "domain": (steps(WAIT, more="allowed_domains: [a.x, y]\n"), "5:22 steps[0].url: x is outside `allowed_domains`"),
    "domain-of-api": (
        steps("{act: api, url: 'https://Y:8/${memory.p}'}", more="memory: {p: 1}\nallowed_domains: [x]\n"),
        "steps[1].url: y is outside `allowed_domains`: the step ends the task with POLICY_DOMAIN",
    ),
    "domain-of-cases": (
        steps("{act: open, url: '${param.n}'}", more="parametrize: {n: ['http://a/', 'http://b/']}\n" + ONLY_X),
        "steps[1].url: a is outside `allowed_domains`",
    ),
    # memory
    "memory-of-nobody": (
        steps("{act: type, selector: '#a', value: 'is ${memory.nope}'}", more="memory: {node: 1}\n"),
        "6:44 steps[1].value: `memory` has no `nope` and no step remembers it: always MEMORY_MISSING",
    ),
    "memory-deep": (
        steps("{act: wait, selector: '#a-${memory.k.y}'}", "{act: wait, selector: '#a', remember: {k.x: '1'}}"),
        "steps[1].selector: `memory` has no `k.y`",
    ),
    "precondition-of-nobody": (
        steps(WAIT, more="memory: {k: 2}\npreconditions: [\"exists('#a')\", \"mem('k') == 1\"]\n"),
        "4:33 preconditions[1]: never holds: memory does not have this value before the first step",
    ),
}


@pytest.mark.parametrize(("text", "expected"), UNWISE.values(), ids=UNWISE)
def test_what_is_unwise_is_told_with_its_place(tmp_path: Path, text: str, expected: str) -> None:
    found = told(tmp_path, text)
    assert [line for line in found if expected in line], found
    assert len([line for line in found if "success_criteria" not in line]) <= 1, found


FIT = {
    "submit": steps("{act: submit, selector: form, done_when: \"exists('#done')\"}"),
    "submit-read": steps("{act: submit, selector: form, effect: read}"),
    "post": steps("{act: api, url: 'http://x/', method: POST, effect: idempotent}"),
    "nothing-is-guessed-from-words": steps("{act: click, selector: '#buy-now', note: Place the order}"),
    "dialog": steps("{act: dialog, value: dismiss}", WAIT),
    "precondition": HEAD + "preconditions: [\"count('a') > 0\"]\nsuccess_criteria: [\"count('a') > 1\"]\n",
    "memory-false": HEAD + "memory: {k: 1}\nsuccess_criteria: [\"mem('k') == 2\"]\n",
    "remembered": steps(REMEMBER, more="").replace("exists('#done')", "mem('k.x') == null"),
    "of-an-episode": HEAD + "episode_id: e\nsuccess_criteria: [\"mem('k') == null\"]\n",
    "page": HEAD + "memory: {k: 1}\nsuccess_criteria: [\"ALL[mem('k') == 1, exists('#a')]\"]\n",
    "time": HEAD + "memory: {k: '2025-11-16T09:00:00Z'}\nsuccess_criteria: [\"time_since('k') > 0\"]\n",
    "later": HEAD + "memory: {k: 1}\nsuccess_criteria: [\"STABLE(1, mem('k') == 1)\"]\n",
    "channel": HEAD + "success_criteria: [\"json('env', 'a') == null\"]\n",
    "key-called-length": HEAD + "success_criteria: [\"json('x', \\\"a['length']\\\") == 3\"]\n",
    "size-of-a-file": HEAD + "success_criteria: [\"json('x', 'file.size') == 3\", \"json('x', 'length') == 3\"]\n",
    "number": HEAD + "success_criteria: [\"ALL[number(text('#n')) == 5, text('#n') < 5, text('#n') == '5']\"]\n",
    "counted": HEAD + "success_criteria: [\"json('x', 'a.list').length == 3\"]\n",
    "variable": HEAD + "success_criteria: [\"'${env:HARNESS_X}' != ''\"]\n",
    "one-case-only": HEAD + CASES + "memory: {k: 1}\nsuccess_criteria: [\"mem('k') == ${param.n}\"]\n",
    "fallback": rules("on_element_not_found: {fallback_selectors: {'#a': ['#b']}}"),
    "fallback-of-a-reference": rules(
        "on_element_not_found: {fallback_selectors: {'#a-${inputs.n}': ['#b']}}",
        "inputs: {n: 1}\n",
        "{act: wait, selector: '#a-1'}",
    ),
    "fallback-of-memory": rules(
        "on_element_not_found: {fallback_selectors: {'#a-1': ['#b']}}",
        "memory: {n: 1}\n",
        "{act: wait, selector: '#a-${memory.n}'}",
    ),
    "fallback-of-a-target": rules(
        "on_element_not_found: {fallback_selectors: {'#to': ['#b']}}", act="{act: drag, selector: '#a', value: '#to'}"
    ),
    "limits": steps("{act: wait, selector: '#a', timeout: 20}", "{act: wait, value: 4}", more=SHORT),
    "default-limits": steps(WAIT, more="timeout: 10\n"),
    "wait_seconds": rules("on_element_not_found: {wait_seconds: 5}", SHORT),
    "default-wait": rules("on_element_not_found: {fallback_selectors: {'#a': ['#b']}}", SHORT),
    "retries": rules("on_network_error: {max_retries: 2, retry_delay_ms: 9000}", SHORT),
    "assertion-wait": rules("on_assertion_fail: {strategy: retry_after_wait}", SHORT),
    "budget": steps(WAIT, more="budget: {max_seconds: 300, max_steps: 2}\n"),
    "fault": steps(
        WAIT,
        more=SHORT + "faults: [{kind: hang, url: 'http://x/*', seconds: 90}]\n"
        "expect: {final_state: failed, error_type: timeout_step}\n",
    ),
    "meant": steps(
        "{act: wait, value: 9}",
        more=SHORT + "budget: {max_steps: 1}\nexpect: {final_state: aborted, code: BUDGET_EXCEEDED}\n",
    ),
    "judged-and-unmet": START + FINE + "expect: {final_state: failed, code: CRITERIA_UNMET}\nsteps:\n" + OPEN,
    "judged-at-the-end": START + FINE + "expect: {final_state: failed, error_type: assertion_failed, step_index: 1}\n"
    "steps:\n" + OPEN,
    "never-judged": START + "expect: {final_state: failed, code: STEP_TIMEOUT}\nsteps:\n" + OPEN,
    "unknown-outcome": steps(
        "{act: submit, selector: form}", more="expect: {final_state: failed, code: OUTCOME_UNKNOWN}\n"
    ),
    "checkpoints": rules("on_timeout: retry_from_checkpoint", "checkpoints: [0, 1]\n"),
    "checkpoint-for-a-crash": steps(WAIT, more="checkpoints: [1]\n"),
    "bindings": rules("on_state_inconsistency: trust_env", BOUND, REMEMBER),
    "binding-of-memory": steps(WAIT, more=BOUND + "memory: {k: 1}\n"),
    "plan": steps(WAIT, more=ENABLED),
    "metrics": steps(WAIT, more="rubrics: {SR: 1.0, LH-F1: 0.3, cost_efficiency: 0.2}\n"),
    "memory_keys": steps(REMEMBER, more="memory_keys: [k, m.x]\nmemory: {m: {x: 1}}\n"),
    "memory_key-around": steps(REMEMBER.replace("{k:", "{k.id:"), more="memory_keys: [k]\n"),
    "memory_key-of-an-episode": steps(WAIT, more="memory_keys: [k]\nepisode_id: e\n"),
    "artifacts": steps(
        "{act: download, selector: '#a', value: a.txt}",
        "{act: screenshot, screenshot_id: shot}",
        more="artifacts: [a.txt, a, shot, shot.png]\n",
    ),
    "domains": steps(
        "{act: open, url: 'http://www.x/'}", "{act: open, url: '/cart'}", "{act: open, url: about:blank}", more=ONLY_X
    ),
    "domain-of-a-run": steps("{act: open, url: 'http://${memory.h}/'}", more="memory: {h: x}\n" + ONLY_X),
    "domain-of-one-case": steps("{act: open, url: 'http://${param.n}/'}", more="parametrize: {n: [x, y]}\n" + ONLY_X),
    "domain-that-is-meant": steps(
        "{act: open, url: 'http://y/'}", more=ONLY_X + "expect: {final_state: aborted, code: POLICY_DOMAIN}\n"
    ),
    "memory-of-a-step": steps(REMEMBER, "{act: wait, selector: '#a-${memory.k.x}'}"),
    "memory-of-an-episode": steps(READS, more="episode_id: e\n"),
    "memory-of-a-dependency": steps(READS, more="dependencies: [B]\n"),
    "memory-of-a-hook": steps(READS, more="preconditions: [\"mem('nope') == 1\"]\n" + REPAIRED).replace(
        "error_recovery: {", "repairs: [{memory: {other: 1}}]\nerror_recovery: {"
    ),
    "memory-in-criteria": steps('{act: assert, expr: "${memory.nope} == null"}'),
    "memory-that-is-meant": steps(READS, more="expect: {final_state: failed, code: MEMORY_MISSING}\n"),
    "precondition-of-memory": steps(WAIT, more="memory: {k: 1}\npreconditions: [\"mem('k') == 1\"]\n"),
    "precondition-of-an-episode": steps(WAIT, more="episode_id: e\npreconditions: [\"mem('k') == 1\"]\n"),
    "precondition-that-is-meant": steps(
        WAIT,
        more="preconditions: [\"mem('k') == 1\"]\nexpect: {final_state: aborted, error_type: precondition_not_met}\n",
    ),
    "last-step-is-a-check": START + "steps:\n" + OPEN + "  - {act: assert, expr: \"exists('h1')\"}\n",
    "download-of-any-name": steps("{act: download, selector: '#a'}", more="artifacts: [a.txt]\n"),
}


@pytest.mark.parametrize("text", FIT.values(), ids=FIT)
def test_what_is_fit_is_left_alone(tmp_path: Path, text: str) -> None:
    assert told(tmp_path, text) == []


def test_of_a_task_that_runs_inside_of_another_the_memory_is_not_known(tmp_path: Path) -> None:
    task = loaded(tmp_path, steps(READS, more="preconditions: [\"mem('k') == 1\"]\n"))
    assert len(list(advice(task))) == 2
    assert list(advice(task, inner=True)) == []


def test_of_the_steps_of_an_agent_nothing_is_known(tmp_path: Path) -> None:
    text = START + "memory_keys: [k]\nartifacts: [a]\ncheckpoints: [3]\nsuccess_criteria: [\"mem('k') == null\"]\n"
    assert list(advice(loaded(tmp_path, text, needs_steps=False))) == []


def test_the_order_is_that_of_the_file(tmp_path: Path) -> None:
    text = steps("{act: submit, selector: form}", more="memory_keys: [k]\ncheckpoints: [9]\n")
    assert [int(line.partition(":")[0]) for line in told(tmp_path, text)] == [3, 4, 7]


@pytest.mark.parametrize("path", find_tasks([ROOT / "tasks", ROOT / "examples"]), ids=lambda path: path.name)
def test_the_shipped_tasks_follow_the_advice(path: Path) -> None:
    assert [str(problem) for problem in advice(load_file(path))] == []
