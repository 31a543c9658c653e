# Two commands are all a newcomer needs: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# A file's tests share compiled programs, so each file goes to one process.
PYTEST := $(BIN)/pytest --numprocesses 2 --dist loadfile

.PHONY: demo test test-full browser test-oldest test-newest faults lint clean

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

test-full: lint browser
	$(PYTEST)

# Chromium for the tests of the page, where it can be had as a package of Debian's; they skip without it.
browser:
	@command -v chromedriver >/dev/null || { command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ] \
		&& apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y install chromium chromium-driver >/dev/null; } \
		|| echo "There is no Chromium with its driver here, and it cannot be installed: tests of the page will skip."

# The full number of faults, of which `make test` tries a few: about half an hour, in one process.
faults: $(READY)
	HHVAEM_FAULTS=results/faults.json $(BIN)/pytest tests/faults
	$(BIN)/python benchmarks/faults.py

# The lowest versions that pyproject.toml allows; pip alone cannot choose them.
.venv-oldest/.ready: pyproject.toml
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check uv
	.venv-oldest/bin/uv pip install --quiet --python .venv-oldest --resolution lowest-direct --editable ".[dev]"
	touch $@

# The newest ones, as of when the environment was made; `make clean` forgets it.
.venv-newest/.ready: pyproject.toml
	$(PYTHON) -m venv .venv-newest
	.venv-newest/bin/python -m pip install --quiet --disable-pip-version-check --upgrade --upgrade-strategy eager --editable ".[dev]"
	touch $@

# The oldest typer, matplotlib and starlette stand beside the newest of what they need there, and use
# what these have come to deprecate.
test-oldest: QUIETLY := -W ignore::DeprecationWarning -W ignore::PendingDeprecationWarning
test-oldest test-newest: test-%: .venv-%/.ready
	.venv-$*/bin/pytest --numprocesses 2 --dist loadfile -m "not slow" $(QUIETLY)

clean:
	rm -rf $(VENV) .venv-oldest .venv-newest .mypy_cache .pytest_cache .ruff_cache
