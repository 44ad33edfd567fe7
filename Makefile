PYTHON ?= python3
VENV := .venv
STAMP := $(VENV)/installed
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help demo serve test lint bench reproduce docs notebook clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile

demo: $(STAMP)  ## run a campaign and every policy on one problem; tables on screen, figures in out/
	$(BIN)/tensorbandits demo --out out

serve: $(STAMP)  ## serve decisions at http://127.0.0.1:8000, with a campaign whose simulated users click
	$(BIN)/tensorbandits serve --demo --log-format console --log-level warning $(ARGS)

# Two test processes, one linear-algebra thread each: more threads than cores slow everything down.
test: export OPENBLAS_NUM_THREADS = 1
test: export OMP_NUM_THREADS = 1
test: $(STAMP)  ## run the tests and the examples in the docstrings
	$(BIN)/python -m pytest -n 2 --dist worksteal $(PYTEST_ARGS)

lint: $(STAMP)  ## check style, formatting, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# ARGS=--quick takes 3 minutes; ARGS="rounds scale" measures only these, ARGS="against --commit HEAD~1" beside a commit; ARGS=beds plays for hours. Peers need: pip install -r benchmarks/requirements.txt.
bench: $(STAMP)  ## measure speed and regret beside twins and peers; page and figures in out/bench
	$(BIN)/python -m benchmarks $(ARGS)

# ARGS="figure2 --quick" runs one item in a minute. A run that was stopped goes on where it was.
reproduce: ARGS ?= all
reproduce: $(STAMP)  ## run the paper's evaluation; report and figures in out/reproduce
	$(BIN)/tensorbandits reproduce $(ARGS)

docs: $(STAMP)  ## build the documentation into build/docs
	$(BIN)/mkdocs build --strict

notebook: $(STAMP)  ## run docs/campaign.ipynb again, and keep what it shows
	mkdir -p build && cd build && ../$(BIN)/jupyter execute --inplace ../docs/campaign.ipynb

clean:  ## remove everything that the other targets made
	rm -rf $(VENV) out build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests benchmarks docs -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# The build tools are installed first, so that they too come from the lock file.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "error: tensorbandits needs Python 3.11 or newer, but '$(PYTHON)' is" \
	    "$$($(PYTHON) --version 2>&1 | tail -n 1 | grep -i '^python [0-9]' || echo 'not a working Python')." >&2; \
	  echo "Name another one, for example: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; \
	  exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt hatchling editables setuptools
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation \
	  -c constraints.txt -e '.[experiments,service,postgres,client,dask,ray,paper,dev]'
	@touch $@
