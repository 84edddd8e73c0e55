"""A plan is what the task says, made ready for this run."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harness.model.channel_settings import ChannelSettings
from harness.model.plan import Plan
from harness.model.settings import Settings
from harness.recovery import GiveUp, NoRecovery
from harness.recovery.failure import Failure
from harness.runner.compile import compile_plan
from harness.spec.problems import SpecError
from harness.spec.references import resolve
from harness.spec.task import TaskSpec
from tests.unit.spec.files import STEPS, loaded, task

ENVIRON = {"PW": "s3cret", "HOST": "shop.local"}


def compiled(settings: dict[str, Any] | None = None, environ: dict[str, str] | None = None, **fields: Any) -> Plan:
    spec = TaskSpec.model_validate(task(**fields))
    options = Settings(**(settings or {}))
    return compile_plan(spec, settings=options, run_id="r1", environ=ENVIRON if environ is None else environ)


def test_a_plain_task() -> None:
    plan = compiled(time="2025-11-16T09:00:00Z", timeout=60, step_timeout=5)
    assert (plan.task_id, plan.key, plan.world, plan.source) == ("T-1", "T-1", "r1.T-1", "T-1")
    assert plan.steps == plan.spec.steps
    assert (plan.timeout, plan.step_timeout) == (60, 5)
    assert plan.start == datetime(2025, 11, 16, 9, tzinfo=UTC)
    assert plan.secrets == ()


def test_references_are_resolved_but_for_memory() -> None:
    plan = compiled(
        inputs={"sku": "WM-1", "max": 30, "password": "${env:PW}"},
        persona={"name": "O'Neil"},
        goal="buy ${inputs.sku} at ${env:HOST}",
        memory={"who": "${persona.name}"},
        preconditions=["text('#who') == '${persona.name}'"],
        success_criteria=["mem('total') <= ${inputs.max}", "exists('#o-${memory.id}')"],
        steps=[
            {"act": "open", "url": "http://${env:HOST}/${inputs.sku}"},
            {"act": "type", "selector": "#pw", "value": "${inputs.password}"},
            {"act": "type", "selector": "#max", "value": "${inputs.max}"},
            {"act": "click", "selector": "#o-${memory.id}"},
        ],
        faults=[{"kind": "refuse", "host": "${env:HOST}", "connections": 1}],
    )
    values = [step.model_dump() for step in plan.steps]
    assert values[0]["url"] == "http://shop.local/WM-1"
    assert values[1]["value"] == "s3cret"
    assert values[2]["value"] == 30
    assert resolve(plan.steps[3], lambda: {"id": 7}).target == "#o-7"
    assert [str(criterion) for criterion in plan.preconditions] == [r"text('#who') == 'O\'Neil'"]
    assert [str(criterion) for criterion in plan.success_criteria] == [
        "mem('total') <= 30",
        "exists('#o-${memory.id}')",
    ]
    assert plan.spec.goal == "buy WM-1 at shop.local"
    assert plan.spec.memory == {"who": "O'Neil"}
    assert plan.spec.inputs["password"] == "s3cret"
    assert plan.faults[0].model_dump()["host"] == "shop.local"
    assert set(plan.secrets) == {"s3cret", "shop.local"}
    assert "secrets=" not in repr(plan)


def test_the_spec_that_was_loaded_stays_as_it_is() -> None:
    spec = TaskSpec.model_validate(task(goal="${inputs.x}", inputs={"x": "a"}))
    compile_plan(spec, settings=Settings(), run_id="r")
    assert spec.goal == "${inputs.x}"


def test_an_unset_variable_is_an_error_now(tmp_path: Path) -> None:
    found = loaded(tmp_path, task(inputs={"password": "${env:PW}"}))
    with pytest.raises(SpecError, match=r"t\.task\.yaml:\d+:\d+: inputs\.password: \$\{env:PW\}: .* not set"):
        compile_plan(found, settings=Settings(), run_id="r", environ={})


def test_what_was_assigned_is_checked(tmp_path: Path) -> None:
    found = loaded(tmp_path, task())
    found.spec.task_id = "../x"
    found.spec.success_criteria = ("nope(",)
    with pytest.raises(SpecError) as caught:
        compile_plan(found, settings=Settings(), run_id="r")
    assert [problem.path for problem in caught.value.problems] == ["task_id", "success_criteria[0]"]


def test_values_are_checked_once_they_are_known() -> None:
    steps = [
        {"act": "open", "url": "${inputs.url}"},
        {"act": "upload", "selector": "a", "value": "${inputs.file}"},
        {"act": "press", "value": "${inputs.list}"},
    ]
    with pytest.raises(SpecError) as caught:
        compiled(inputs={"url": "file:///etc/passwd", "file": "../x", "list": {"a": 1}}, steps=steps)
    assert [problem.path for problem in caught.value.problems] == ["steps[2]", "steps[0].url", "steps[1].value"]


SECRETS = ["hunter2-secret", "s" * 100, 'it\'s \\ "quoted"', "line\nbreak", "javascript:steal-this"]


def refused_with(secret: str, **fields: Any) -> str:
    with pytest.raises(SpecError) as caught:
        compiled(environ={"PW": secret}, **fields)
    assert len(caught.value.problems) == 1
    return str(caught.value)


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("value", ["${env:PW}", "${inputs.pw}", "files/${env:PW}.png", "x" * 50 + "${env:PW}"])
def test_problems_do_not_tell_secrets(value: str, secret: str) -> None:
    words = refused_with(secret, inputs={"pw": "${env:PW}"}, steps=[{"act": "upload", "selector": "a", "value": value}])
    assert "there is no such file" in words
    assert "[redacted]" in words or value[0] == "x"
    assert not any(part in words for part in (secret[:8], repr(secret)[1:7]))


@pytest.mark.parametrize("url", ["${env:PW}", "java${env:PW}"])
def test_a_scheme_out_of_a_secret_is_not_told(url: str) -> None:
    words = refused_with("script:steal-this", steps=[{"act": "open", "url": url}])
    assert "URLs of the scheme `[redacted]:` are not allowed" in words
    assert "script" not in words


@pytest.mark.parametrize("secret", ["hunter2-[", "h" * 200 + "["])
def test_a_criterion_broken_by_a_secret_does_not_tell_it(secret: str) -> None:
    words = refused_with(secret, success_criteria=["text('#a') matches '${env:PW}'"])
    assert "success_criteria[0]: cannot be read after" in words
    assert "hunter" not in words
    assert "hhh" not in words


def test_secrets_that_the_file_itself_holds_are_hidden_too() -> None:
    words = refused_with("s3cret", inputs={"pw": "${env:PW}"}, task_id="../s3cret")
    assert "found: text '../[redacted]'" in words


def test_a_broken_reference_beside_a_variable_is_told() -> None:
    words = refused_with("s3cret", goal="${env:PW} ${nope.x}")
    assert "${nope.x}: not a known reference" in words


def test_a_task_without_steps_cannot_be_run() -> None:
    with pytest.raises(SpecError, match="no steps"):
        compiled(steps=[])


def test_unknown_channels_are_an_error_where_channels_are_configured() -> None:
    criteria = ["json('enw', 'a') == 1"]
    compiled(success_criteria=criteria)
    with pytest.raises(SpecError, match="unknown channel `enw`"):
        compiled({"channels": {"env": ChannelSettings(file="env.json")}}, success_criteria=criteria)


def test_timeouts_are_scaled() -> None:
    steps = [*STEPS, {"act": "click", "selector": "a", "timeout": 2}]
    plan = compiled({"timeout_scale": 2.5}, steps=steps, timeout=60, step_timeout=4)
    assert (plan.timeout, plan.step_timeout, plan.steps[3].timeout) == (150, 10, 5)
    assert plan.rulebook.on_element_not_found.patience == 25


def test_a_slow_task_has_three_times_as_long() -> None:
    """On top of the run's own factor, for all that the factor is for."""
    steps = [*STEPS, {"act": "click", "selector": "a", "timeout": 2}]
    plan = compiled(
        {"timeout_scale": 2}, slow=True, steps=steps, timeout=60, step_timeout=4, budget={"max_seconds": 10}
    )
    assert (plan.timeout, plan.step_timeout, plan.steps[3].timeout, plan.timeout_scale) == (360, 24, 12, 6)
    assert plan.spec.budget.max_seconds == 60
    assert plan.rulebook.on_element_not_found.patience == 60


@pytest.mark.parametrize(
    ("options", "fields", "limits"),
    [
        ({}, {}, (300, 30)),
        ({}, {"timeout_profile": "medium"}, (450, 45)),
        ({}, {"timeout_profile": "complex"}, (600, 60)),
        ({}, {"timeout_profile": "complex", "step_timeout": 5}, (600, 5)),
        ({"timeout_profile": "complex"}, {}, (600, 60)),
        ({"timeout_profile": "complex"}, {"timeout": 100}, (100, 60)),
        ({"timeout_profile": "complex"}, {"timeout_profile": "simple"}, (300, 30)),
        ({"timeout_profile": "medium", "timeout_scale": 2}, {}, (900, 90)),
    ],
)
def test_a_profile_gives_the_limits_that_are_not_declared(
    options: dict[str, Any], fields: dict[str, Any], limits: tuple[float, float]
) -> None:
    plan = compiled(options, **fields)
    assert (plan.timeout, plan.step_timeout) == limits


FALLBACKS = {"on_element_not_found": {"fallback_selectors": {"#a-${inputs.n}": ["#b-${inputs.n}"]}}}


def first_remedies(plan: Plan, failure: Failure) -> list[str]:
    return [type(remedy).__name__ for remedy in plan.rulebook.remedies(failure, lambda: 0.5)]


def test_healing_can_be_forbidden() -> None:
    missing = Failure("ELEMENT_NOT_FOUND", "m", selector="#a-1")
    fields = {"inputs": {"n": 1}, "error_recovery": FALLBACKS}
    assert first_remedies(compiled(**fields), missing) == ["Substitute", "GiveUp"]
    assert first_remedies(compiled({"heal": False}, **fields), missing) == ["GiveUp"]


@pytest.mark.parametrize(
    ("settings", "environ"),
    [({"recovery": False}, {}), ({}, {"RESILIENCE_ENABLED": "false"}), ({}, {"RESILIENCE_ENABLED": "0"})],
)
def test_recovery_can_be_turned_off(settings: dict[str, Any], environ: dict[str, str]) -> None:
    plan = compiled(settings, environ, error_recovery={"on_network_error": "retry_3_times"})
    assert isinstance(plan.rulebook, NoRecovery)
    assert list(plan.rulebook.remedies(Failure("NET_DNS", "m"), lambda: 0)) == [GiveUp("failed")]
    assert plan.rulebook.on_network_error.model_dump()["max_retries"] == 3
    relaxed = {"enabled": True, "relaxed_success_criteria": ["url() == 'x'"]}
    assert compiled({}, {}, fallback_plan=relaxed).relaxed
    assert not compiled(settings, environ, fallback_plan=relaxed).relaxed


def test_recovery_is_on_otherwise() -> None:
    assert not isinstance(compiled(environ={"RESILIENCE_ENABLED": "true"}).rulebook, NoRecovery)


def test_an_episode_shares_one_world() -> None:
    first, second = compiled(task_id="A", episode_id="ep 1"), compiled(task_id="B", episode_id="ep 1")
    assert first.world == second.world
    assert " " not in first.world


def test_a_key_of_the_caller() -> None:
    spec = TaskSpec.model_validate(task())
    plan = compile_plan(spec, settings=Settings(), run_id="r", key="T-1-firefox")
    assert (plan.key, plan.world) == ("T-1-firefox", "r.T-1-firefox")
