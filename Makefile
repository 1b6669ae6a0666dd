# Two commands do everything: `make demo` and `make test`. Both set up what they need first.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
export PYTHONDONTWRITEBYTECODE ?=

.DEFAULT_GOAL := help
.PHONY: help setup jars kcat demo test check test-matrix fuzz bench format clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(READY): pyproject.toml
	@echo "==> creating $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -c 'import sys; sys.exit("kclient needs Python 3.11 or newer, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	@echo "==> installing kclient and the packages its tests and benchmarks need"
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable . --group dev --group bench
	@touch $@

setup: $(READY)  ## virtual environment with every package

jars: setup  ## Kafka's jars for the tests, fetched once into a cache
	$(BIN)/python -m tools.kafka fetch

# A package of the system, wanted but not needed: tried where nobody has to be asked.
kcat:  ## kcat for the tests, where it can be installed
	@command -v kcat >/dev/null || command -v kafkacat >/dev/null || { [ "$$(id -u)" = 0 ] && timeout 300 sh -c \
	  'apt-get install -y -qq kcat || { apt-get update -qq && apt-get install -y -qq kcat; }' >/dev/null 2>&1; } || \
	  echo "==> no kcat, and it could not be installed: its tests will be skipped"

demo: setup  ## what kclient can do today, on a real broker
	$(BIN)/python -m examples.demo

check: setup  ## formatting, lint, types, layering
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: check jars kcat  ## every check and every test
	$(BIN)/python -m pytest

test-matrix: setup  ## the compatibility matrix: every supported broker version
	$(BIN)/python -m pytest -m matrix --kafka-versions=all

fuzz: setup  ## ten times the fuzzing of `make test`, with a fresh seed
	KCLIENT_FUZZ_CASES=2000000 KCLIENT_FUZZ_SEED=$${SEED:-$$(date +%s)} $(BIN)/python -m pytest tests/fuzz --timeout 7200

bench: setup  ## kclient's codecs against its peers, as ratios in one run
	$(BIN)/python -m benchmarks

format: setup  ## format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:  ## remove the environment and caches of this checkout
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
