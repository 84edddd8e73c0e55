"""Generated values and one-time passwords wherever references are, in the plan of a task."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harness.engine.agent import BadProposalError, step_of
from harness.model.plan import Plan
from harness.model.settings import Settings
from harness.runner.compile import compile_plan
from harness.spec.fault_plan import load_fault_plan
from harness.spec.problems import SpecError
from harness.spec.references import resolve
from harness.spec.task import TaskSpec
from tests.unit.spec.files import write

SECRET = base64.b32encode(b"12345678901234567890").decode()
NOW = datetime(2026, 1, 31, 10, 30, 15, tzinfo=UTC)
OPEN = {"act": "open", "url": "http://shop.local/"}


def compiled(environ: dict[str, str] | None = None, settings: Settings | None = None, **spec: Any) -> Plan:
    document = {"task_id": "T", "goal": "g", "steps": [OPEN], **spec}
    environ = {"OTP": SECRET, "PW": "hidden"} if environ is None else environ
    made = TaskSpec.model_validate(document)
    return compile_plan(made, settings=settings or Settings(), run_id="r", environ=environ, now=NOW)


def refused(**spec: Any) -> list[str]:
    with pytest.raises(SpecError) as raised:
        compiled(**spec)
    return [f"{each.path}: {each.message}" for each in raised.value.problems]


def test_a_value_is_the_same_in_every_part_of_the_task() -> None:
    plan = compiled(
        goal="for ${fake.email}",
        inputs={"mail": "${fake.email}", "day": "${now + 3d | %Y-%m-%d}", "who": "${param.who}"},
        parametrize=[{"who": "${fake.name}"}],
        persona={"mail": "<${fake.email}>"},
        memory={"mail": "${fake.email}"},
        browser={"extra_headers": {"X-Mail": "${fake.email}"}},
        faults=[{"kind": "refuse", "connections": 1, "step": 0, "host": "${fake.domain_name}"}],
        steps=[{"act": "type", "selector": "#d${inputs.day}", "value": "${fake.email}, ${inputs.who}"}],
        success_criteria=["text('#a') == ${fake.email}", "text('#b') == '${now + 3d | %Y-%m-%d}'"],
    )
    made = compiled(inputs={"x": "${fake.email}", "n": "${fake.name}"}).spec.inputs
    email, name = made["x"], made["n"]
    assert plan.spec.goal == f"for {email}"
    assert plan.spec.inputs == {"mail": email, "day": "2026-02-03", "who": name}
    assert (plan.spec.persona, plan.spec.memory) == ({"mail": f"<{email}>"}, {"mail": email})
    assert plan.context.extra_headers == {"X-Mail": email}
    assert "." in plan.faults[0].model_dump()["host"]
    assert plan.steps[0].model_dump()["value"] == f"{email}, {name}"
    assert plan.steps[0].model_dump()["selector"] == "#d2026-02-03"
    assert [str(each) for each in plan.success_criteria] == [f"text('#a') == '{email}'", "text('#b') == '2026-02-03'"]
    assert plan.generated is not None
    assert plan.generated.made["${fake.email}"] == email


def test_zone_and_language_are_those_of_the_context_with_its_references() -> None:
    settings = Settings.model_validate({"browser": {"timezone": "Asia/Tokyo", "locale": "de-DE"}})
    inputs = {"at": "${now}", "iban": "${fake.iban}", "zone": "Asia/Kolkata"}
    found = compiled(settings=settings, inputs=inputs).spec.inputs
    assert (found["at"], str(found["iban"])[:2]) == ("2026-01-31T19:30:15+09:00", "DE")
    own = compiled(settings=settings, inputs=inputs, browser={"timezone": "${inputs.zone}"}).spec.inputs
    assert own["at"] == "2026-01-31T16:00:15+05:30"


def test_a_one_time_password_is_made_when_its_step_runs_and_not_before() -> None:
    plan = compiled(
        inputs={
            "code": "${totp:OTP}",
            "text": "${env:PW} $${x} ${totp:OTP}",
            "again": "${param.p}",
        },
        parametrize=[{"p": "<${totp:OTP}>"}],
        steps=[
            {"act": "type", "selector": "#a", "value": "${inputs.code}"},
            {"act": "type", "selector": "#a", "value": "${inputs.text}, ${inputs.again}, ${totp:OTP}"},
            {"act": "assert", "expr": "value('#a') == ${inputs.code} "},
            {"act": "assert", "expr": "value('#a') == '${totp:OTP}-${inputs.again}'"},
        ],
    )
    assert plan.steps[0].model_dump()["value"] == "${totp:OTP}"
    ready = [resolve(step, dict, {"OTP": "123456"}).model_dump() for step in plan.steps]
    assert [step.get("value") for step in ready[:2]] == ["123456", "hidden ${x} 123456, <123456>, 123456"]
    assert [step.get("expr") for step in ready[2:]] == ["value('#a') == '123456' ", "value('#a') == '123456-<123456>'"]
    assert set(plan.secrets) == {SECRET, "hidden"}


def test_a_value_that_only_looks_like_one_stays_a_text() -> None:
    environ = {"OTP": SECRET, "PW": "${totp:OTP}"}
    step = {"act": "type", "selector": "#a", "value": "${env:PW} ${inputs.pw} ${totp:OTP}"}
    plan = compiled(environ, inputs={"pw": "${env:PW}"}, steps=[step])
    done = resolve(plan.steps[0], dict, {"OTP": "1"}).model_dump()
    assert done["value"] == "${totp:OTP} ${totp:OTP} 1"


def test_codes_become_secrets_of_the_plan_as_they_are_made() -> None:
    plan = compiled(steps=[{"act": "type", "selector": "#a", "value": "${totp:OTP}"}])
    assert plan.one_time is not None
    code = plan.one_time.code("OTP", NOW)
    assert plan.secrets == plan.all_secrets == (SECRET, code)
    assert code not in repr(plan)
    assert SECRET not in repr(plan)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("goal", "${totp:OTP}"),
        ("memory", {"a": "${totp:OTP}"}),
        ("success_criteria", ["text('#a') == '${totp:OTP}'"]),
        ("browser", {"user_agent": "${totp:OTP}"}),
        ("faults", [{"kind": "refuse", "connections": 1, "step": 0, "host": "${inputs.code}"}]),
        ("page_values", {"a": "${inputs.code}"}),
    ],
)
def test_what_is_no_step_cannot_use_one(part: str, value: Any) -> None:
    (only,) = refused(inputs={"code": "${totp:OTP}"}, **{part: value})
    assert only.startswith(part)
    assert "a one-time password is made when a step runs" in only


def test_neither_the_settings_nor_a_fault_plan_can_use_one(tmp_path: Path) -> None:
    settings = Settings.model_validate({"browser": {"user_agent": "${totp:OTP}"}})
    (only,) = refused(settings=settings)
    assert only.startswith("browser: ${totp:OTP}: a one-time password is made when a step runs")
    plan = {"faults": [{"kind": "refuse", "connections": 1, "step": 0, "host": "${inputs.code}"}]}
    file = write(tmp_path, plan, "p.faults.json")
    (only,) = refused(settings=Settings(faults=(file,)), inputs={"code": "${totp:OTP}"})
    assert "in T, which it strikes: ${totp:OTP}: a one-time password" in only
    direct = write(tmp_path, json.dumps(plan).replace("inputs.code", "totp:OTP"), "d.faults.json")
    with pytest.raises(SpecError, match="a one-time password is made when a step runs"):
        load_fault_plan(direct)


def test_an_agent_uses_the_same_values_and_the_passwords_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTP", SECRET)
    plan = compiled(inputs={"code": "${totp:OTP}", "mail": "${fake.email}"})
    step = step_of({"act": "type", "selector": "#a", "value": "${fake.email} ${inputs.code} ${totp:OTP}"}, plan)
    assert step.model_dump()["value"] == f"{plan.spec.inputs['mail']} ${{totp:OTP}} ${{totp:OTP}}"
    monkeypatch.setenv("COPY", SECRET)
    with pytest.raises(BadProposalError, match="the file does not use this one-time password"):
        step_of({"act": "type", "selector": "#a", "value": "${totp:COPY}"}, plan)


def test_a_bad_secret_is_one_problem_and_a_missing_one_is_told() -> None:
    step = {"act": "type", "selector": "#a", "value": "${totp:OTP} ${totp:OTP}"}
    (only,) = refused(environ={"OTP": "no base32 1"}, steps=[step, step])
    assert "steps[0].value: ${totp:OTP}: `OTP` has no usable secret: it is neither" in only
    (missing,) = refused(environ={}, steps=[step])
    assert "${totp:OTP}: the environment variable is not set" in missing
