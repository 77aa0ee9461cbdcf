# `make demo` and `make test` set up what they need in .venv and run; nothing else is wanted but Python and make.

PYTHON ?= python3
BIN = .venv/bin
READY = .venv/ready

.PHONY: demo test lint bench clean

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("neuralilp needs Python 3.11 or newer; run: make PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	@echo 'setting up .venv: a few minutes, most of them for PyTorch'
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(READY)

demo: $(READY)
	$(BIN)/neuralilp demo

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(BIN)/python -m pytest --cov --cov-report=term

bench: $(READY)
	$(BIN)/neuralilp bench step --task random-constraints
	$(BIN)/neuralilp bench step --task sudoku --size 4
	$(BIN)/neuralilp bench step --task sudoku --size 6
	$(BIN)/neuralilp bench step --task sudoku --size 9

clean:
	rm -rf .venv demo build src/neuralilp.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
