"""Answers one command of `harness` after another, each in a process of its own that has imported everything already.

It reads the commands from standard input, one a line, and writes what each has printed as one JSON document. It is run
as a program, in the project that is asked.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile


def answer(command: str) -> str:
    """What a command prints, and how it ends."""
    with tempfile.TemporaryFile() as file:
        if not (child := os.fork()):
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            sys.argv = ["harness", *command.split()]
            main()
            sys.exit()
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        file.seek(0)
        text = file.read().decode("utf-8", "replace")
    return f"{text}\nexit code {code}\n" if code else text


if __name__ == "__main__":
    from harness.cli import main
    from harness.cli.commands import Imported

    asked, loaded = sys.stdin.read().splitlines(), [*Imported().values()]
    answers = {command: answer(command) for command in asked}
    sys.stdout.write(json.dumps(answers))
