"""The command line of the benchmarks."""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks import collection, each_act, first_step, further, gate, light, memory, scale, steps, throughput, viewers
from benchmarks.ground import Ground, ground
from benchmarks.processor import metered
from benchmarks.table import Row, lines

RESULTS = Path(__file__).parent / "results"
PARTS: dict[str, Callable[[Ground, argparse.Namespace], list[Row]]] = {
    "gate": lambda ground, _: gate.measure(ground),
    "light": lambda ground, chosen: light.measure(ground, chosen.runs),
    "further": lambda ground, chosen: further.measure(ground, chosen.runs, chosen.further),
    "acts": lambda ground, chosen: each_act.measure(ground, chosen.runs, chosen.times),
    "steps": lambda ground, chosen: steps.measure(ground, chosen.rounds, chosen.sizes),
    "throughput": lambda ground, chosen: throughput.measure(ground, chosen.runs, _size(chosen), chosen.at_once),
    "collection": lambda ground, chosen: collection.measure(ground, chosen.runs, chosen.files),
    "memory": lambda ground, chosen: memory.measure(ground, chosen.long, chosen.every),
    "viewers": lambda ground, chosen: viewers.measure(ground, chosen.runs, _size(chosen), chosen.viewers),
    "scale": lambda ground, _: scale.measure(ground),
    "start": lambda ground, chosen: first_step.measure(ground, chosen.runs),
}


def main(arguments: Sequence[str]) -> int:
    """Measure, print, write; return 1 if a bound is not met or a run went wrong, 0 otherwise."""
    chosen = _parser().parse_args(arguments)
    rows: list[Row] = []
    with ground() as here:
        machine = _machine(here)
        print(*(f"{name}: {value}" for name, value in machine.items()), sep="\n", flush=True)
        for part in chosen.parts or PARTS:
            print(f"... {part}", flush=True)
            found = PARTS[part](here, chosen)
            print("", *lines(found), "", sep="\n", flush=True)
            rows += found
    if len(chosen.parts or PARTS) > 1:
        print("", *lines(rows), sep="\n")
    print(f"written: {_write(chosen, machine, rows)}")
    return int(any(row.verdict in ("not met", "wrong") for row in rows))


def _size(chosen: argparse.Namespace) -> throughput.Size:
    return throughput.Size(chosen.tasks, chosen.steps, chosen.failing)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    add = parser.add_argument
    add("parts", nargs="*", choices=[*PARTS, []], metavar="PART", help=f"of {', '.join(PARTS)}; all of them by default")
    add("--rounds", type=_count, default=30, help="turns of part steps (default 30)")
    add("--sizes", type=_several, default=(8, 24, 48), metavar="N,N", help="steps of its tasks (default 8,24,48)")
    add("--runs", type=_count, default=5, help="turns of all other parts but memory (default 5)")
    add("--further", type=_several, default=(6, 24), metavar="N,N", help="tasks of part further (default 6,24)")
    add("--times", type=_several, default=(4, 64), metavar="N,N", help="how often part acts does an act (default 4,64)")
    add("--tasks", type=_count, default=24, help="tasks of parts throughput and viewers (default 24)")
    add("--steps", type=_count, default=32, help="steps of each of them (default 32)")
    add("--failing", type=int, default=2, help="how many of them fail (default 2)")
    add("--at-once", type=_sizes, default=(1, 2, 3, 4, 5, 6), metavar="N,N", help="what raw Playwright tries")
    add("--files", type=_count, default=10_000, help="files of part collection (default 10000)")
    add("--long", type=_count, default=1000, help="tasks of part memory (default 1000)")
    add("--every", type=_count, default=50, help="tasks between two of its samples (default 50)")
    add("--viewers", type=_count, default=50, help="viewers of part viewers (default 50)")
    add("--json", type=Path, metavar="FILE", help="where the figures go (default benchmarks/results/<date>.json)")
    return parser


def _count(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return number


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(map(_count, text.split(",")))


def _several(text: str) -> tuple[int, ...]:
    """Parse several numbers, so that a line can be drawn through them."""
    if len(sizes := set(_sizes(text))) < 2:
        raise argparse.ArgumentTypeError(f"{text} are not two different sizes")
    return tuple(sorted(sizes))


def _machine(ground: Ground) -> dict[str, Any]:
    return {
        "processor time by": _name_of_meter(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load at the start": round(os.getloadavg()[0], 2),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "browser": f"{ground.executable.name} {ground.version}",
        **{name: version(name) for name in ("playwright", "pytest-playwright", "pytest", "pytest-xdist")},
    }


def _name_of_meter() -> str:
    with metered() as meter:
        return meter.name


def _write(chosen: argparse.Namespace, machine: dict[str, Any], rows: Sequence[Row]) -> Path:
    now = datetime.now(UTC)
    path: Path = chosen.json or RESULTS / f"{now:%Y-%m-%dT%H%M%S}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    options = {name: value for name, value in vars(chosen).items() if name != "json"}
    document = {
        "at": now.isoformat(),
        "machine": machine,
        "options": options,
        "rows": [row.as_json() for row in rows],
    }
    path.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    return path
