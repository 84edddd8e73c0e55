# The two commands. Both prepare everything they need first (bootstrap/); a second call starts at once.
#   make run                     run tasks/ in a real browser
#   make test                    all checks, then the whole test suite
#   make run ARGS="-k shop -x"   more arguments for pytest
#   make run PYTHON=python3.12   another Python

BOOTSTRAP = python="$$(sh bootstrap/find-python)" && "$$python" -m bootstrap

.PHONY: run test

run:
	@$(BOOTSTRAP) run $(ARGS)

test:
	@$(BOOTSTRAP) test $(ARGS)
