"""`python -m benchmarks.never_twice`: places orders on a server that counts, and judges whether any was placed twice.

Exit status 1 if an order was placed twice and the report does not say so, or if a task passed without its order.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.never_twice.playing import Judged, play
from benchmarks.never_twice.tables import WAYS
from benchmarks.never_twice.trials import drawn

WRONG = ("double", "false green")


def main(arguments: Sequence[str]) -> int:
    """Play, print, and say whether all is well."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.never_twice", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--trials", type=int, default=500)
    parser.add_argument("--start", type=int, default=0, help="number of the first trial")
    parser.add_argument("--only", nargs="*", default=(), metavar="ID", help="only these trials, such as S1N0042")
    parser.add_argument("--folder", type=Path, help="where projects and results are kept")
    chosen = parser.parse_args(arguments)
    numbers = range(chosen.start, chosen.start + chosen.trials)
    trials = [drawn(chosen.seed, number) for number in numbers]
    if chosen.only:
        trials = [drawn(*map(int, name[1:].split("N"))) for name in chosen.only]
    folder = (chosen.folder or Path(tempfile.mkdtemp(prefix="never-twice-"))).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    begun, judged = time.monotonic(), []
    with (folder / "results.jsonl").open("a", encoding="utf-8") as file:
        for each in play(trials, folder):
            judged.append(each)
            print(each.line(), file=file, flush=True)
            if each.verdict in WRONG or chosen.only:
                print(each.line(), flush=True)
    print(*report(judged), f"{time.monotonic() - begun:.0f} s; {folder}", sep="\n")
    return int(any(each.verdict in WRONG for each in judged))


def report(judged: Sequence[Judged]) -> list[str]:
    """The table by way back and verdict, the kinds of pages that went wrong, and the figures of all."""
    verdicts = ("once", "needless", "told", "gap", *WRONG)
    counted = Counter((each.trial.way, each.verdict) for each in judged)
    lines = [f"{'way back':26}" + "".join(f"{verdict:>13}" for verdict in verdicts)]
    for way in WAYS:
        if any(counted[way, verdict] for verdict in verdicts):
            lines.append(f"{way:26}" + "".join(f"{counted[way, verdict]:13}" for verdict in verdicts))
    wrong = Counter((each.trial.kind, each.trial.way) for each in judged if each.verdict in WRONG)
    lines += [f"{kind} x {way}: {count}" for (kind, way), count in wrong.most_common()]
    unknown = sum(each.code == "OUTCOME_UNKNOWN" for each in judged)
    lost = sum(each.state == "no end" for each in judged)
    totals = Counter(each.verdict for each in judged)
    figures = ", ".join(f"{totals[verdict]} {verdict}" for verdict in verdicts)
    return [*lines, f"{len(judged)} trials: {figures}; {unknown} OUTCOME_UNKNOWN, {lost} without an end"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
