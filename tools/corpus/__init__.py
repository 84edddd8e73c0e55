"""What a user sees of one commit, written to a folder, so that a refactoring can be compared with the commit before it.

    python -m tools.corpus write DIR [--project WORKTREE] [--part NAME] [--bench]
    python -m tools.corpus compare DIR_A DIR_B

`write` plays tasks/ (as it is, and without recovery, which makes red tasks), examples/ and a small campaign in copies
of the project, and asks the commands about these runs. `masks.py` has the one table of what differs between two runs
of the same commit. `compare` prints the differences and ends with 1 if there are any; it does not look at
figures, which are under `bench/`.

On an overloaded machine a picture is missed, and an agent's task ends at its time limit: write a corpus on a quiet one.
Compare only what the same machine has written: versions of the browser, of Python and of the platform are not masked.
What is left out, and why, is the table `LEFT_OUT` in `collect.py`.
"""
