# Two commands do everything: `make demo` and `make test`. Both set up what they need first.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
# Tests start Python hundreds of times; without bytecode each start compiles everything again.
unexport PYTHONDONTWRITEBYTECODE
# Many tests wait for brokers and for each other, so that one process more than cores keeps these busy.
WORKERS ?= $(shell echo $$(($$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN) + 1)))

.DEFAULT_GOAL := help
.PHONY: help setup jars kcat demo test check lint types test-matrix fuzz bench bench-all bench-spark format clean

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

jars:  ## Kafka's jars for the tests, fetched once into a cache; needs no package
	$(PYTHON) -m tools.kafka fetch

# A package of the system, wanted but not needed: tried where nobody has to be asked.
kcat:  ## kcat for the tests, where it can be installed
	@command -v kcat >/dev/null || command -v kafkacat >/dev/null || { [ "$$(id -u)" = 0 ] && timeout 300 sh -c \
	  'apt-get install -y -qq kcat || { apt-get update -qq && apt-get install -y -qq kcat; }' >/dev/null 2>&1; } || \
	  echo "==> no kcat, and it could not be installed: its tests will be skipped"

demo: setup  ## a shop on the embedded broker, with a group and Spark; KAFKA=real takes a real one
	$(BIN)/python -m examples.demo --broker $(or $(KAFKA),embedded)

check: lint types  ## formatting, lint, layering, types

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports

types: setup
	$(BIN)/mypy

# Downloads wait for the network and mypy has use for one core only: they run side by side.
test:  ## every check and every test; what fails is run once more, alone
	@$(MAKE) --no-print-directory -j3 setup jars kcat
	@$(MAKE) --no-print-directory -j2 check
	$(BIN)/python -m tools.suite --workers $(WORKERS)

test-matrix: setup  ## the compatibility matrix: every supported broker version
	$(BIN)/python -m pytest -m matrix --kafka-versions=all

fuzz: setup  ## ten times the fuzzing of `make test`, with a fresh seed
	KCLIENT_FUZZ_CASES=2000000 KCLIENT_FUZZ_SEED=$${SEED:-$$(date +%s)} $(BIN)/python -m pytest tests/fuzz --timeout 7200

bench: setup  ## kclient and its peers in one run: one table, and docs/benchmark.png
	$(BIN)/python -m benchmarks.overview

bench-all: setup  ## every benchmark in detail, held against what is promised
	$(BIN)/python -m benchmarks

bench-spark: setup  ## Spark with kclient against Spark's own connector, as ratios in one run
	$(BIN)/python -m benchmarks.spark

format: setup  ## format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:  ## remove the environment and caches of this checkout
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
