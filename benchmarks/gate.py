"""What must not become slower unnoticed: counts that no busy machine changes, and ratios with room. About a minute.

`make test` asks for it (tests/acceptance/test_benchmarks.py). Whoever makes something faster lowers a bound here; a
commit that raises one says why.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from benchmarks import collection
from benchmarks.contestants import RAW, RECORDINGS, contestants
from benchmarks.each_act import Done, Rounds, done, several
from benchmarks.figures import Line, Spread, paired_ratio
from benchmarks.form_site import HOST
from benchmarks.ground import Ground
from benchmarks.playing import ALONE, play
from benchmarks.processor import metered
from benchmarks.table import Bound, Row
from benchmarks.traffic import TRAFFIC
from benchmarks.workload import alone

SIZES = (2, 12)
"""How often a task does an act; the difference is the act without its task."""
ROUNDS = 2
FILES = 1000
CALLS: Mapping[str, float] = {
    "open": 0, "type": 1, "select": 1, "check": 0, "click": 0, "wait": 0, "assert text": 0, "upload": 0, "api": 1,
}  # fmt: skip
"""Act -> the calls to Playwright's driver that it makes beyond those of raw Playwright, with recording `minimal`."""
CALLS_OF_A_TASK = 10
"""The same of a task without its steps."""
BY_TIME = ("newRequest", "dispose", "send")
"""Calls that go out when a moment has passed, so that their number depends on the load; of `api` they are its own."""
TIMED = ("type", "check", "click")
TIMES = 2.0
"""Processor time of these acts together, over that of raw Playwright."""
COLLECTION = 1.8
"""Processor time to find task files, over as many Python files with a test each. Of 10,000 it is 0.6."""
MODULES = 13
"""Modules of the package that a session without task files loads."""
LOADED = "import sys\n\n\ndef test_one():\n    print('loaded', sum(n.startswith('harness') for n in sys.modules))\n"


def measure(ground: Ground) -> list[Row]:
    """Measure all rows."""
    work = {name: several(name, cycle, SIZES) for name, cycle in alone(ground.hosts[HOST]).items()}
    TRAFFIC.count()
    every, first = [job for each in work.values() for job in each.values()], [work[name][SIZES[0]] for name in TIMED]
    with metered() as meter, contestants(ground, every, first) as people:
        counted = {name: people[name] for name in (RECORDINGS[0], RAW)}
        played = {
            name: done(people if name in TIMED else counted, jobs, ROUNDS if name in (*TIMED, "api") else 1, meter)
            for name, jobs in work.items()
        }
    rows = [_calls(name, each) for name, each in played.items()]
    rows += [
        _of_a_task(played["click"]),
        *(_times(recording, played) for recording in RECORDINGS),
        _modules(ground),
    ]
    return [*rows, *_collected(ground)]


def _calls(act: str, played: Rounds) -> Row:
    ours, theirs = (_each(act, played, name) for name in (RECORDINGS[0], RAW))
    return _counted(f"calls of {act} beyond raw's", ours - theirs, CALLS[act])


def _each(act: str, played: Rounds, name: str) -> int:
    """The calls for one act, to the next whole number: a task that does it more often makes so many more.

    Of several rounds the fewest calls count: a busy machine adds some to a task that it holds up.
    """
    others = () if act == "api" else BY_TIME
    fewest = [(size, min(_number(each[size], others) for each in played[name])) for size in SIZES]
    return round(Line.through(fewest).slope)


def _number(task: Done, others: Collection[str]) -> int:
    return sum(count for name, count in task.calls.items() if name not in others)


def _of_a_task(played: Rounds) -> Row:
    ours, theirs = (_number(played[name][-1][min(SIZES)], BY_TIME) for name in (RECORDINGS[0], RAW))
    return _counted("calls of a task without its steps beyond raw's", ours - theirs, CALLS_OF_A_TASK)


def _counted(what: str, number: float, bound: float) -> Row:
    return Row("gate: counts", what, "", Spread.of([number]), bound=Bound(bound))


def _times(recording: str, played: Mapping[str, Rounds]) -> Row:
    ours, theirs = (
        [
            sum(
                Line.through([(size, task.seconds) for size, task in played[act][name][number].items()]).slope
                for act in TIMED
            )
            for number in range(ROUNDS)
        ]
        for name in (recording, RAW)
    )
    what = f"processor time of {', '.join(TIMED)} ({recording}) over raw's"
    figure = paired_ratio(ours, theirs)
    return Row("gate: ratios", what, "s", Spread.of(ours), Spread.of(theirs), figure, Bound(TIMES))


def _modules(ground: Ground) -> Row:
    folder = ground.folder("without")
    (folder / "test_one.py").write_text(LOADED, "utf-8")
    run = play(("-m", "pytest", "-q", "-s", *ALONE), folder)
    _, _, told = run.output.partition("loaded ")
    row = _counted(
        "modules of the package in a session without task files", float(told.split()[0] if told else 0), MODULES
    )
    return replace(row, wrong="" if told else run.output[-300:])


def _collected(ground: Ground) -> list[Row]:
    rows = collection.measure(ground, 1, FILES, {"all": ()})
    return [replace(row, bound=Bound(COLLECTION)) for row in rows if row.bound and row.what.endswith("processor")]
