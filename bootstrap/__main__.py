"""`python -m bootstrap {run,test,docs,bench,soak,release} [arguments]`: called by the targets of the Makefile."""

from __future__ import annotations

import sys

from bootstrap.command import main

sys.exit(main(sys.argv[1:]))
