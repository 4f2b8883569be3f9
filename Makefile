# Everything a machine needs beyond Python >= 3.11 and make is installed into .venv by `make setup`.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: setup demo test lint types bench clean

setup: .venv/dev

.venv/dev: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "fnode needs Python >= 3.11, not " + sys.version.split()[0] + ": set PYTHON=")'
	test -x $(BIN)/pip || $(PYTHON) -m venv .venv
	$(INSTALL) --editable '.[dev]'
	touch $@

.venv/peers: .venv/dev
	$(INSTALL) --editable '.[peers]'
	touch $@

demo: setup
	$(BIN)/fnode learn mass_spring_damper --seeds 3 -o runs/demo --force

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/basedpyright

test: lint types
	$(BIN)/pytest -n 2 --dist worksteal

bench: .venv/peers
	$(BIN)/python benchmarks/train_step.py
	$(BIN)/python benchmarks/baselines.py
	$(BIN)/python benchmarks/least_squares.py
	$(BIN)/python benchmarks/time_to_accuracy.py --quick
	$(BIN)/python benchmarks/scale.py --quick

clean:
	rm -rf .venv runs .pytest_cache .ruff_cache
