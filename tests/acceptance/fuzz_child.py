"""Loads files as `harness validate` does, and measures itself: `python fuzz_child.py FILE`, then a path on each line.

For each it answers a line of JSON: what came of it, and the seconds of processor time. It may use 2 s and 500 MB of
memory for each; a traceback, or more than that, is a failure.
"""

from __future__ import annotations

import json
import re
import resource
import signal
import sys
import time
import traceback
from pathlib import Path
from types import FrameType

from harness.cli.validate import check_paths
from harness.model.settings import SettingsError, load_settings

SECONDS, MEGABYTES = 2, 500


class TooSlowError(BaseException):
    """The processor time for a file is over."""


def too_slow(_signal: int, _frame: FrameType | None) -> None:
    raise TooSlowError(f"more than {SECONDS} s")


def check(path: Path) -> str:
    """What is said about a file, or `loaded`."""
    if path.name == "pyproject.toml":
        try:
            load_settings(path.parent)
        except SettingsError as error:
            return str(error)
        return "loaded"
    found = check_paths([path], strict=False)
    errors = [str(each) for each in found.problems if each.severity == "error"]
    assert errors or found.loaded or found.plans or found.groups, "it is loaded, or it is told why not"
    return "\n".join(errors) or "loaded"


def main() -> None:
    signal.signal(signal.SIGPROF, too_slow)
    warm = Path(sys.argv[1])
    check(warm)  # what is imported for the first task counts for none
    size = int(re.search(r"VmSize:\s+(\d+) kB", Path("/proc/self/status").read_text("utf-8"))[1])  # type: ignore[index]
    most = size * 1024 + MEGABYTES * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    for line in sys.stdin:
        began, said, failed = time.process_time(), "", ""
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            said = check(Path(line.rstrip("\n")))
        except (Exception, TooSlowError):
            failed = traceback.format_exc(limit=-12)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        seconds = round(time.process_time() - began, 3)
        print(json.dumps({"said": said[:2000], "failed": failed, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()
