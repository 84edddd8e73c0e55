"""`python -m bootstrap {run,test} [pytest arguments]`: what `make run` and `make test` call."""

from __future__ import annotations

import sys

from bootstrap.command import main

sys.exit(main(sys.argv[1:]))
