# `make demo` sets everything up and runs the whole path once. `make test` sets up and runs the linters, the unit tests and
# the main path of each real part (marker `core`); `make test-all` runs all tests.
# Everything lies in .venv/ and in a cache folder; nothing global is touched, but `make test` as root on a Debian
# machine without a Docker engine installs one (see .ci/engine).

PYTHON ?= $(shell for p in python3.12 python3.11 python3.13 python3.10 python3.14 python3; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null && { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
# Tests wait more than they work: several processes a core. PYTEST_WORKERS=0 runs them one after the other.
PYTEST_WORKERS ?= 4

PYTEST_OPTIONS = -n $(PYTEST_WORKERS) --dist loadgroup $(PYTEST_ARGS)

.PHONY: demo test test-all .checked .engine .engines .linted lint clean

# Where no registry can be reached, the base image of the tests serves the demo too, once `make test` has built it.
demo: $(VENV)/.installed
	@base=$$DKDBG_BASE; \
	if [ -z "$$base" ] && ! docker image inspect python:3.11-slim >/dev/null 2>&1 \
	  && docker image inspect dkdbg-test/python:3.11 >/dev/null 2>&1; then base=dkdbg-test/python:3.11; fi; \
	DKDBG_BASE=$$base $(BIN)/dkdbg demo

test: .checked
	$(BIN)/python -m tests.run -m core $(PYTEST_OPTIONS)

test-all:
	@$(MAKE) --no-print-directory -j 2 .engines .linted
	$(BIN)/python -m tests.run $(PYTEST_OPTIONS)

# The engines with their images and the linters do not need each other.
.checked:
	@$(MAKE) --no-print-directory -j 2 .engine .linted

.engine:
	@.ci/engine || [ -z "$$CI" ]
	@.ci/base-image 3.11
	@.ci/kubectl || [ -z "$$CI" ]

.engines: .engine
	@.ci/base-image 3.14
	@.ci/podman || [ -z "$$CI" ]
	@.ci/neovim || [ -z "$$CI" ]

.linted: $(VENV)/.installed-test
	$(BIN)/ruff check cli tests benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports

lint: $(VENV)/.installed-test
	$(BIN)/ruff format cli tests
	$(BIN)/ruff check --fix cli tests benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports

$(VENV)/bin/python:
	@[ -n "$(PYTHON)" ] || { echo "dkdbg needs Python 3.10 or newer with venv (Debian, Ubuntu: apt install python3-venv; macOS: brew install python)"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/.installed-test: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test,lint]'
	@touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
