"""`make bench`, `python -m benchmarks`: the figures of DESIGN 7, each beside its rival's."""

from __future__ import annotations

import sys

from benchmarks.command import main

sys.exit(main(sys.argv[1:]))
