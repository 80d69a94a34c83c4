# Two commands do everything: `make demo` and `make test`. Each sets itself up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

# Image sets that lie beside the project are used where they are.
ifneq ($(wildcard ../shared/data),)
export USPEBM_DATA ?= $(abspath ../shared/data)
endif

.PHONY: help setup demo bench test docs soak audit format clean
.DEFAULT_GOAL := help

help:
	@echo "make demo    train PS-USP and SRLMC on the 2-D mixture (a minute and a half of training)"
	@echo "make test    linters, type checker, doctests, tests and the site"
	@echo "make docs    build the site into site/, warnings as errors (half a minute)"
	@echo "make soak    kills (also of ranks and of engines' workers), full disks, two writers, threads,"
	@echo "             bit flips, fuzzed inputs (over an hour)"
	@echo "make audit   look for known vulnerabilities of the pinned dependencies"
	@echo "make bench   time the particle step against plain PyTorch and torchebm (a quarter of an hour)"
	@echo "make format  fix the layout of the code"
	@echo "make setup   only install into $(VENV)"
	@echo "make clean   remove $(VENV) and caches"

setup: $(INSTALLED)

# Reinstalled only when what is to be installed changed. The pins live in constraints.txt,
# the package's own metadata stays open.
$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "uspebm needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.11"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -c constraints.txt -e '.[dev]'
	@touch $@

demo: setup
	$(BIN)/uspebm demo

bench: setup
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -c constraints.txt -e '.[bench]'
	$(BIN)/uspebm bench

test: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/pytest -n 2 --dist worksteal

# From the repository alone: nothing is fetched, neither to build it nor to read it.
docs: setup
	$(BIN)/sphinx-build -q -W --keep-going -b html docs site
	@echo "open site/index.html"

# The long form of the tests. The long training runs beside the other parts; two hours of it, alone:
# python -m tests.soak memory --seconds 7200
# Of the engines, Dask is installed; the others: pip install -c constraints.txt -e '.[spark,ray]'
soak: setup
	$(BIN)/python -m tests.soak --seconds 1800

# In an environment of its own: its dependencies are none of ours.
audit: setup
	@test -x $(VENV)/audit/bin/pip-audit || $(PYTHON) -m venv $(VENV)/audit
	@test -x $(VENV)/audit/bin/pip-audit || \
		$(VENV)/audit/bin/python -m pip install --disable-pip-version-check --quiet --retries 1 --timeout 15 pip-audit 2>/dev/null || true
	@$(BIN)/python -m tests.audit $(VENV)/audit/bin/pip-audit

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) site docs/record .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
