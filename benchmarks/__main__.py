"""`make bench`, `python -m benchmarks`: the figures of docs/benchmarks.md, each beside its rival's."""

from __future__ import annotations

import sys

from benchmarks.command import main
from benchmarks.ground import ending_in_order

ending_in_order()
sys.exit(main(sys.argv[1:]))
