"""A task as a directory of JSON files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.model.settings import Settings
from harness.runner.compile import compile_plan
from harness.spec.load import load_file
from tests.unit.spec.files import STEPS, problems, write

SPEC = {"task_id": "T-1", "goal": "buy"}
ENTRY = {"key": "orders.last.id", "value": "O-1", "ts": "2025-11-16T09:00:23Z", "source": "T-1", "confidence": 1.0}


def folder(tmp_path: Path, **files: Any) -> Path:
    for name, content in files.items():
        write(tmp_path, content, f"{name}.json")
    return tmp_path


def test_spec_trace_and_memory_make_one_task(tmp_path: Path) -> None:
    where = folder(
        tmp_path,
        task_spec=SPEC,
        oracle_trace={"task_id": "T-1", "steps": STEPS, "recorded_by": "us"},
        initial_memory={"card": "1234", "address": {"value": "not an entry"}},
        expected_memory={"orders.last.id": ENTRY, "total": 5},
    )
    for path in (where, where / "task_spec.json"):
        found = load_file(path)
        assert [step.act for step in found.spec.steps] == ["open", "click", "wait"]
        assert found.spec.memory == {"card": "1234", "address": {"value": "not an entry"}}
        assert found.spec.expected_memory == {"orders.last.id": "O-1", "total": 5}
        assert found.warnings == ()
        assert found.names == ("T-1", tmp_path.name)


def test_a_trace_may_be_the_list_of_steps(tmp_path: Path) -> None:
    where = folder(tmp_path, task_spec=SPEC, oracle_trace='[\n{"act": "open", "url": "http://a/"},\n{"act": "scroll"}]')
    assert [step.act for step in load_file(where).spec.steps] == ["open", "scroll"]
    folder(tmp_path, oracle_trace='[\n{"act": "open", "url": "http://a/"},\n{"act": "scrol"}]')
    assert "oracle_trace.json:3:9: steps[1].act: not a known act" in only(where)


def test_steps_in_the_spec_itself_win(tmp_path: Path) -> None:
    where = folder(tmp_path, task_spec={**SPEC, "steps": STEPS[:1]}, oracle_trace={"steps": STEPS})
    found = load_file(where)
    assert len(found.spec.steps) == 1
    assert "oracle_trace.json is not used" in str(found.warnings[0])


def test_a_trace_of_another_task_is_a_warning(tmp_path: Path) -> None:
    where = folder(tmp_path, task_spec=SPEC, oracle_trace={"task_id": "T-2", "steps": STEPS})
    warning = str(load_file(where).warnings[0])
    assert warning.startswith(f"{tmp_path}/oracle_trace.json:2:13: task_id: the trace is of another task")
    assert problems(where, strict=True)


def test_problems_point_into_the_file_they_are_in(tmp_path: Path) -> None:
    steps = [*STEPS, {"act": "click", "selector": "#a", "done_when": "nope"}, {"act": "clik"}]
    where = folder(tmp_path, task_spec={**SPEC, "timeout": 1}, oracle_trace={"steps": steps})
    found = {problem.path: (Path(problem.file).name, problem.line) for problem in problems(where)}
    assert found == {
        "timeout": ("task_spec.json", 4),
        "steps[3].done_when": ("oracle_trace.json", 18),
        "steps[4].act": ("oracle_trace.json", 21),
    }


def only(where: Path) -> str:
    [problem] = problems(where)
    return str(problem)


def test_a_missing_trace(tmp_path: Path) -> None:
    where = folder(tmp_path, task_spec=SPEC)
    assert "task_spec.json:1:1: steps: no steps: a task needs at least one" in only(where)
    assert "oracle_trace.json" in only(where)
    assert load_file(where, needs_steps=False).spec.steps == ()


def test_a_broken_trace(tmp_path: Path) -> None:
    assert "oracle_trace.json:1:2: not valid JSON" in only(folder(tmp_path, task_spec=SPEC, oracle_trace="{x"))
    assert "oracle_trace.json:1:1: steps: no steps" in only(folder(tmp_path, task_spec=SPEC, oracle_trace="[]"))
    shape = 'expected: {"task_id": ..., "steps": [...]}'
    for trace, words in {"{}": "`steps` is missing", "5": "oracle_trace.json:1:1: not a trace"}.items():
        found = only(folder(tmp_path, task_spec=SPEC, oracle_trace=trace))
        assert words in found
        assert shape in found
    trace = '{"steps": {"act": "open"}}'
    assert "oracle_trace.json:1:11: steps: wrong type" in only(folder(tmp_path, task_spec=SPEC, oracle_trace=trace))
    assert "no steps: a task needs" in only(folder(tmp_path, task_spec=SPEC, oracle_trace='{"steps": []}'))


def test_broken_memory(tmp_path: Path) -> None:
    where = folder(tmp_path, task_spec={**SPEC, "steps": STEPS}, expected_memory={"a": {**ENTRY, "confidence": 2}})
    assert "expected_memory.json:7:17: a.confidence: out of range" in only(where)


def test_an_entry_under_another_key_is_a_warning(tmp_path: Path) -> None:
    where = folder(tmp_path, task_spec={**SPEC, "steps": STEPS}, initial_memory={"a": ENTRY})
    assert "the entry `a` calls itself text 'orders.last.id'" in str(load_file(where).warnings[0])


def test_an_empty_directory(tmp_path: Path) -> None:
    assert "task_spec.json:1:1: the file cannot be read" in only(tmp_path)


def test_a_step_stands_in_the_file_that_it_was_read_from(tmp_path: Path) -> None:
    where = folder(tmp_path, task_spec={**SPEC, "success_criteria": ["exists('#done')"]}, oracle_trace={"steps": STEPS})
    plan = compile_plan(load_file(where), settings=Settings(), run_id="r")
    line = (where / "oracle_trace.json").read_text("utf-8").splitlines().index('   "selector": "#buy"')
    assert plan.steps_source.endswith("oracle_trace.json")
    assert plan.place_of(1) == f"{plan.steps_source}:{line - 1}"
    assert plan.place_of(len(STEPS)) == plan.source
    assert plan.source.endswith("task_spec.json")
