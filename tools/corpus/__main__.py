"""The two commands of the corpus."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tools.corpus.collect import RUNS, SURFACE, write
from tools.corpus.compare import differences


def main() -> int:
    """Write a corpus, or compare two; exit code 1: they differ."""
    parser = argparse.ArgumentParser("python -m tools.corpus", description="What a user sees, before and after.")
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("write", help="write the corpus of a worktree, with the Python that runs this")
    writing.add_argument("folder", type=Path, metavar="DIR", help="a new folder")
    writing.add_argument("--project", type=Path, default=Path.cwd(), help="the worktree; default: this folder")
    writing.add_argument("--part", action="append", default=[], choices=[SURFACE, *RUNS], help="only this; repeatable")
    writing.add_argument("--bench", action="store_true", help="also measure steps and collection; never compared")
    comparing = commands.add_parser("compare", help="print the differences of two corpora")
    comparing.add_argument("before", type=Path, metavar="DIR_A")
    comparing.add_argument("after", type=Path, metavar="DIR_B")
    asked = parser.parse_args()
    if asked.command == "write":
        write(asked.folder.absolute(), asked.project.absolute(), asked.part, bench=asked.bench)
        return 0
    lines = list(differences(asked.before, asked.after))
    sys.stdout.write("\n".join(lines or [f"equal: {asked.before} and {asked.after}"]) + "\n")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
