# All set-up happens here: git, make, Python 3.11 or newer and pip are enough.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: help run test test-faults lint types bench bench-flower clean

help:
	@echo "make run     set up, then train by the embedded job: digits on ten devices"
	@echo "make test    set up, then lint, check types and run the tests"
	@echo "make test-faults  run those tests on real processes that take minutes"
	@echo "make bench   set up, then measure the speed of planning, training and buffers"
	@echo "make clean   remove the environment and caches"

$(VENV)/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version.split()[0]; sys.exit(None if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed, this is " + v + ": make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,flower,report]'
	@touch $@

run: $(VENV)/.ready
	$(BIN)/dynamite run

test: lint types
	$(BIN)/pytest

test-faults: $(VENV)/.ready
	$(BIN)/pytest -m faults

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

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
