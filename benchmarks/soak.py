"""`make soak`, `python -m benchmarks.soak`: parallel runs end like serial ones, and a long run loses nothing."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import suites
from benchmarks.figures import Estimate, trend
from benchmarks.ground import Ground, ending_in_order, ground
from benchmarks.memory import COUNTS, KIB, SETTLED, lowest
from benchmarks.playing import ALONE, OURS, PytestRun, pytest
from benchmarks.witness import EVERY, KILL

LAST = ".harness/last-run.json"
FACTS = ("final_state", "code", "step_index", "steps_completed")
Facts = Mapping[str, tuple[Any, ...]]
LONG = 900
"""The number of tasks from which memory is judged: before, the driver's heap varies more than it could grow."""
ENOUGH = 5
"""The number of samples for a line through them."""
MOST = 20
"""The number of differences that are shown."""
GROWTH = {"files": 10.0, "processes": 10.0, "temp": 10.0, "python": KIB, "driver": KIB}
"""The growth that 1,000 tasks may cause: files and processes (fewer at the moment of a killed browser), and MiB."""


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite that is run again and again."""

    name: str
    folder: Path
    arguments: tuple[str, ...]

    def run(self, workers: int, environment: Mapping[str, str] | None = None) -> PytestRun:
        """Run the suite with so many tasks at once."""
        return self._run("--task-workers", str(workers), environment=environment)

    def on_cluster(self, slots: int) -> PytestRun:
        """Run the suite on so many slots of a Ray cluster."""
        return self._run("--task-cluster", f"local:{slots}")

    def _run(self, *how: str, environment: Mapping[str, str] | None = None) -> PytestRun:
        (self.folder / LAST).unlink(missing_ok=True)
        given = ("tasks", "-q", *OURS, *ALONE, *self.arguments, *how)
        return pytest(self.folder, *given, environment=environment, keep=True)


def main(arguments: Sequence[str]) -> int:
    """Return 0 if nothing differed, was lost, or was left."""
    chosen = _parser().parse_args(arguments)
    with ground() as here:
        wrong = [*_equal(here, chosen), *_long(here, chosen)]
    print(f"\n{len(wrong)} wrong", *wrong[:MOST], sep="\n  ")
    return int(bool(wrong))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    add = parser.add_argument
    add("--times", type=int, default=20, help="runs of many at once for each suite (default 20; 0 leaves this out)")
    add("--workers", type=int, default=4, help="tasks at once (default 4)")
    add("--cluster", type=int, default=0, metavar="SLOTS", help="run on so many slots of a Ray cluster instead")
    add("--suite", action="append", choices=("shipped", "generated", "faults"), help="which suites; all by default")
    add("--tasks", type=int, default=24, help="walks through the shop in the generated suite (default 24)")
    add("--long", type=int, default=1000, help="tasks of the long run (default 1000; 0 leaves this out)")
    add("--kill-every", type=int, default=100, help="tasks after which the browser is killed (default 100)")
    return parser


def _equal(here: Ground, chosen: argparse.Namespace) -> Iterator[str]:
    """Yield the differences from the serial run of the same suite."""
    for suite in _suites(here, chosen) if chosen.times else ():
        serial = suite.run(1)
        expected = facts(suite.folder, serial)
        yield from (f"{suite.name}, serial: {found}" for found in disorder(serial, len(expected)))
        print(f"{suite.name}: {len(expected)} tasks one after the other in {serial.whole:.1f} s", flush=True)
        for number in range(1, chosen.times + 1):
            played = suite.on_cluster(chosen.cluster) if chosen.cluster else suite.run(chosen.workers)
            found = [*differences(expected, facts(suite.folder, played)), *disorder(played, len(expected))]
            print(f"  {number:3} {played.whole:6.1f} s  {'equal' if not found else '; '.join(found[:3])}", flush=True)
            yield from (f"{suite.name}, run {number}: {each}" for each in found)


def _suites(here: Ground, chosen: argparse.Namespace) -> Iterator[Suite]:
    executable = ("--task-browser-executable", str(here.executable))
    makers: dict[str, Callable[[Path], object]] = {
        "shipped": suites.shipped,
        "generated": lambda folder: suites.generate(folder, chosen.tasks),
        "faults": suites.shipped,
    }
    for name in chosen.suite or makers:
        folder = suites.project(here.temp, name)
        makers[name](folder)
        yield Suite(name, folder, (*executable, *(("--task-faults", suites.CAMPAIGN) if name == "faults" else ())))


def facts(folder: Path, played: PytestRun) -> Facts:
    """Node id -> the facts that must not depend on the number of workers: outcome, ending, and types of warnings."""
    file = folder / LAST
    document = json.loads(file.read_text("utf-8")) if file.is_file() else {"results": []}
    records = {each["task_id"]: each for each in document["results"]}
    return {
        node: (each[-1]["outcome"], *_told(records.get(node.partition("::")[2])))
        for node, each in played.document.get("results", {}).items()
    }


def _told(record: Mapping[str, Any] | None) -> tuple[Any, ...]:
    """The facts of a record; a skipped task has none."""
    if record is None:
        return ()
    return (*(record[name] for name in FACTS), tuple(sorted({each["type"] for each in record["warnings"]})))


def differences(expected: Facts, found: Facts) -> list[str]:
    return [
        f"{node.partition('::')[2] or node}: {expected.get(node, 'no result')} became {found.get(node, 'no result')}"
        for node in sorted({*expected, *found})
        if expected.get(node) != found.get(node)
    ]


def disorder(played: PytestRun, tasks: int) -> Iterator[str]:
    """Yield tasks without a result or with several, and processes and files that are left."""
    results = played.document.get("results", {})
    if len(results) != tasks or not results:
        yield f"{len(results)} of {tasks} tasks have a result: {played.output[-300:]}"
    if {each[-1]["outcome"] for each in results.values()} == {"failed"}:
        yield f"all failed: {played.output[-1000:]}"
    yield from (f"{node} has {len(each)} results" for node, each in results.items() if len(each) != 1)
    yield from (f"left: {each}" for each in played.leftovers)


def _long(here: Ground, chosen: argparse.Namespace) -> Iterator[str]:
    """Run very many small tasks, and kill the browser now and then."""
    if not chosen.long:
        return
    folder = suites.project(here.temp, "long")
    suites.restartable(folder, chosen.long, chosen.kill_every)
    every = max(1, chosen.long // 50)
    suite = Suite("long", folder, ("--task-browser-executable", str(here.executable)))
    played = suite.run(chosen.workers, {EVERY: str(every), KILL: str(chosen.kill_every)})
    print(f"long run: {chosen.long} tasks in {played.whole:.1f} s, {played.document.get('killed')} browsers killed")
    found = [*disorder(played, chosen.long), *_lost(played), *growing_figures(played.document.get("samples", []))]
    yield from (f"long run: {each}" for each in found)


def _lost(played: PytestRun) -> Iterator[str]:
    for node, each in played.document.get("results", {}).items():
        if each[-1]["outcome"] != "passed":
            yield f"{node}: {each[-1]}"


def growing_figures(samples: Sequence[dict[str, float]]) -> Iterator[str]:
    """Yield the figures that grow; the first third is left out, since caches fill at first."""
    low = lowest(samples)
    low = low[int(len(low) * SETTLED) :]
    for name, most in GROWTH.items() if len(low) > ENOUGH else ():
        slope = trend([(each["tasks"], each[name]) for each in low])
        more = Estimate(*(1000 * value for value in (slope.value, slope.low, slope.high)))
        print(f"  {name}: {more.value:+.2f} ({more.low:+.2f} .. {more.high:+.2f}) by 1,000 tasks")
        if more.low > most and (name in COUNTS or low[-1]["tasks"] >= LONG):
            yield f"{name} grows: {more.value:+.1f} by 1,000 tasks"


if __name__ == "__main__":
    ending_in_order()
    sys.exit(main(sys.argv[1:]))
