"""`harness explain`: a code in full, the codes of an error_type, all codes, or the nearest name."""

from __future__ import annotations

import json

import pytest
import typer

from harness.bridge.refusals import WIRE_CODES
from harness.cli.explain import explain
from harness.recovery.catalog import CATALOG, FAMILIES
from harness.spec.warnings import WARNINGS


def test_a_code_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    explain("element_covered")
    shown = capsys.readouterr().out
    row = CATALOG["ELEMENT_COVERED"]
    assert shown.startswith("ELEMENT_COVERED  (action_failed)\n")
    assert "category:  execution, severity error, scope " in shown
    assert f"cause:     {row.cause}\n" in shown
    assert f"do:        {row.hint}\n" in shown
    assert "rule:      `on_action_failed`, by default `retry`: it does the step again; then it ends the task" in shown
    assert '"error_message": "#buy is covered by <div id' in shown


def test_a_code_that_a_retry_cannot_help(capsys: pytest.CaptureFixture[str]) -> None:
    explain("NET_TLS")
    said = "`on_network_error`, by default `retry`, which does not try this code again: it ends the task as failed"
    assert said in capsys.readouterr().out


def test_all_codes(capsys: pytest.CaptureFixture[str]) -> None:
    explain(None)
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [*CATALOG, *WIRE_CODES, *WARNINGS]
    explain(None, as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert [each["code"] for each in (*told["codes"], *told["bridge"])] == [*CATALOG, *WIRE_CODES]


@pytest.mark.parametrize(("typed", "meant"), [("NET_DSN", "NET_DNS"), ("browser_crash", "BROWSER_CRASHED")])
def test_a_name_that_is_nearly_a_code(typed: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        explain(typed)
    assert f"did you mean `{meant}`" in capsys.readouterr().err


def test_a_code_of_the_bridge_is_known_too(capsys: pytest.CaptureFixture[str]) -> None:
    explain("sess_turn_over")
    shown = capsys.readouterr().out
    assert shown.startswith("SESS_TURN_OVER: The turn is over (a code of the bridge)\n")
    assert f"what to do: {WIRE_CODES['SESS_TURN_OVER'].hint}" in shown
    explain("SESS_TURN_OVER", as_json=True)
    assert json.loads(capsys.readouterr().out)["severity"] == "error"


def test_every_warning_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    for name, facts in WARNINGS.items():
        explain(name.upper())
        said = capsys.readouterr().out
        assert said.startswith(f"{name}: {facts.means} (a warning)")
        assert said.endswith(f"what to do: {facts.hint}\n")
        assert facts.hint
    explain("fault_not_met", as_json=True)
    assert json.loads(capsys.readouterr().out)["warning"] == "fault_not_met"
    explain(None, as_json=True)
    assert [each["warning"] for each in json.loads(capsys.readouterr().out)["warnings"]] == list(WARNINGS)
    assert {facts.warning for facts in FAMILIES.values()} <= set(WARNINGS)
