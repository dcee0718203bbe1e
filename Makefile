# Every target sets up .venv at the repository's root by itself. PYTHON picks the interpreter: make test PYTHON=python3.13
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo docs onramp test test-long test-oldest test-pythons check compat faults fuzz soak bench coverage clean

demo: $(READY)
	$(BIN)/python examples/demo.py

test: $(READY)
	$(BIN)/python -m pytest -n 3 $(ARGS)

# And what takes long, of which make test has a shorter form each.
test-long: $(READY)
	LONG=1 $(BIN)/python -m pytest -n 3 $(ARGS)

# The suite with every Python that Treaty is for and that is found, each in an environment of its own.
test-pythons:
	for python in python3.11 python3.12 python3.13; do \
		if $$python -c '' 2> /dev/null; then $(MAKE) test PYTHON=$$python VENV=.venv-$$python || exit 1; \
		else echo "$$python: not found"; fi; \
	done

# The suite with the lowest versions that pyproject.toml allows, in an environment of its own.
test-oldest: .venv-oldest/.ready
	.venv-oldest/bin/python -m pytest -n 3 $(ARGS)

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/treaty check

# The docs site, in build/docs; to read it: python -m http.server --directory build/docs
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

# All pages that lead from a script without Treaty to one with it, done as they say; make test does one of them.
onramp: $(READY)
	LONG=1 $(BIN)/python -m pytest tests/examples/test_onramp.py

# Flax's own tests of all that reaches flax.serialization, from the source release of the Flax that is installed, run against ours.
compat: $(READY)
	$(BIN)/python -m tests.compat.flax_suite

# Kills, power cuts, full disks and input/output errors at every moment of a save, and of a manager's turn, once or for MINUTES.
# Needs root, strace, e2fsprogs, xfsprogs, exfatprogs, exfat-fuse.
faults: $(READY)
	$(BIN)/python -m tests.faults $(if $(MINUTES),--minutes $(MINUTES)) $(ARGS)

bench: $(READY)
	$(BIN)/python -m benchmarks $(ARGS)

fuzz: $(READY)
	$(BIN)/python -m tests.attacks.fuzz --seconds $(or $(SECONDS),60) $(if $(SEED),--seed $(SEED))

# Training loops that are killed, interrupted, forked and out of disk space while others read what they save; then 2,000 saves of
# one process, after which it must hold no more than before.
soak: $(READY)
	$(BIN)/python -m tests.soak --minutes $(or $(MINUTES),2) $(if $(SEED),--seed $(SEED)) $(if $(KINDS),--kinds $(KINDS))
	$(BIN)/python -m tests.soak.growth

coverage: $(READY)
	$(BIN)/python -m pytest -n 2 --cov --cov-report=term-missing:skip-covered --cov-fail-under=95

clean:
	rm -rf .venv .venv-* .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage*

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Treaty needs Python 3.11 or newer; say which: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $(READY)

$(VENV)/.docs: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[docs]'
	touch $(VENV)/.docs

.venv-oldest/.ready: pyproject.toml constraints.txt constraints-oldest.txt
	$(PYTHON) -m venv .venv-oldest
	awk -F== 'NR == FNR {old[tolower($$1)]; next} !(tolower($$1) in old)' constraints-oldest.txt constraints.txt > .venv-oldest/others.txt
	.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-oldest.txt --constraint .venv-oldest/others.txt --editable '.[dev]'
	touch .venv-oldest/.ready
