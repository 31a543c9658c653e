# Two commands are all a newcomer needs: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# A file's tests share compiled programs, so each file goes to one process.
PYTEST := $(BIN)/pytest --numprocesses 2 --dist loadfile

.PHONY: demo test test-full lint clean

$(READY): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "hhvaem needs Python 3.11 or newer: make PYTHON=python3.11")'
	@echo "Setting up $(VENV): a minute or two, once."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	touch $(READY)

demo: $(READY)
	$(BIN)/hhvaem demo

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(PYTEST) -m "not slow"

test-full: lint
	$(PYTEST)

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache
