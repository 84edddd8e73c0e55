# The commands. All prepare everything they need first (bootstrap/); a second call starts at once.
#   make run                     run tasks/ in a real browser
#   make test                    all checks, then the whole test suite
#   make docs                    build the documentation into site/
#   make bench                   measure speed against the rivals (docs/benchmarks.md); ARGS="steps --rounds 10"
#   make soak                    many at once against one at a time, again and again, and a long run
#   make release                 build and check what is published, and say how to upload it
#   make run ARGS="-k shop -x"   more arguments for pytest
#   make run PYTHON=python3.12   another Python

BOOTSTRAP = python="$$(sh bootstrap/find-python)" && "$$python" -m bootstrap

.PHONY: run test docs bench soak release

run:
	@$(BOOTSTRAP) run $(ARGS)

test:
	@$(BOOTSTRAP) test $(ARGS)

docs:
	@$(BOOTSTRAP) docs $(ARGS)

bench:
	@$(BOOTSTRAP) bench $(ARGS)

soak:
	@$(BOOTSTRAP) soak $(ARGS)

release:
	@$(BOOTSTRAP) release $(ARGS)
