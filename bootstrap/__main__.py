"""`python -m bootstrap {run,test,bench,soak} [arguments]`: what `make run` and the others call."""

from __future__ import annotations

import sys

from bootstrap.command import main

sys.exit(main(sys.argv[1:]))
