# All set-up happens here: git, make, Python 3.11 or newer and pip are enough. Reports are tested in
# Chromium, Debian's packages chromium and chromium-driver; those tests are skipped without it.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --constraint constraints.txt

# Without compiled files every process compiles all modules and tests again.
export PYTHONDONTWRITEBYTECODE =

.PHONY: help run test test-all test-faults lint types bench bench-flower dist docs clean

help:
	@echo "make run       set up what a run needs, then train by the embedded job"
	@echo "make test      set up everything, then lint, check types and run the tests"
	@echo "make test-all  the same with the slow tests, and with more and random examples"
	@echo "make test-faults  kills, damaged files, bad input, lies and load, with figures at the end"
	@echo "make bench     measure the speed of planning, training and buffers"
	@echo "make dist      build the wheel and the source archive, and try them in clean environments"
	@echo "make docs      build the documentation as a site in docs/_build/html"
	@echo "make clean     remove the environment and caches"

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; v = sys.version.split()[0]; sys.exit(None if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed, this is " + v + ": make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	@touch $@

# A run and its report need no more than this; tests need all extras.
$(VENV)/.run: $(VENV)/.made pyproject.toml constraints.txt
	$(PIP) --editable '.[train,report]'
	@touch $@

$(VENV)/.ready: $(VENV)/.run
	$(PIP) --editable '.[dev,flower,metrics,privacy,ray,report,tensorboard,mlflow]'
	@touch $@

run: $(VENV)/.run
	$(BIN)/dynamite run
	@echo "To look at it: $(BIN)/dynamite report $$(ls -td runs/*/ | head -n 1)"

test: lint types
	$(BIN)/pytest -n 2 -m "not slow"

test-all: lint types
	HYPOTHESIS_PROFILE=thorough $(BIN)/pytest -n 2

# All faults, slow or not; -n 2 would let load and kills disturb each other.
test-faults: $(VENV)/.ready
	$(BIN)/pytest -m faults tests

lint: $(VENV)/.ready
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(VENV)/.ready
	$(BIN)/mypy

bench: $(VENV)/.ready
	$(BIN)/python benchmarks/planner.py
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/buffers.py

bench-flower: $(VENV)/.ready
	$(BIN)/python benchmarks/flower.py

dist: $(VENV)/.made
	$(PIP) build
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/python tests/packaging/check_dist.py dist

# The site is built in the same environment; tests do without what it needs.
$(VENV)/.docs: $(VENV)/.ready
	$(PIP) --editable '.[docs]'
	@touch $@

docs: $(VENV)/.docs
	rm -rf docs/_build docs/reference
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet docs docs/_build/html
	@echo "To look at it: docs/_build/html/index.html"

clean:
	rm -rf docs/_build docs/reference
	rm -rf $(VENV) dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
