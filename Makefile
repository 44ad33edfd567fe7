PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
# What each kind of target needs beyond the library itself; each is added to the same environment when it is first needed.
NEEDS_demo := experiments
NEEDS_serve := service
NEEDS_paper := experiments,paper
NEEDS_tests := experiments,service,postgres,client,openfeature,dask,lake,ray,redis,spark,paper,dev
TESTED := $(VENV)/with-tests

.DEFAULT_GOAL := help
.PHONY: help demo serve quick test test-all coverage lint bench reproduce docs notebook clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/with-demo  ## run a campaign and every policy on one problem; tables on screen, figures in out/
	$(BIN)/tensorbandits demo --out out

serve: $(VENV)/with-serve  ## serve decisions at http://127.0.0.1:8000, with a campaign whose simulated users click
	$(BIN)/tensorbandits serve --demo --log-format console --log-level warning $(ARGS)

# One linear-algebra thread in each test process: more threads than cores slow everything down. What takes moments
# computes, so that two processes are enough; the rest waits for servers, browsers and clusters half of the time.
quick test test-all coverage: export OPENBLAS_NUM_THREADS = 1
quick test test-all coverage: export OMP_NUM_THREADS = 1
unexport PYTHONDONTWRITEBYTECODE  # assertions are rewritten once, not in each process of each run
PYTEST = $(BIN)/python -m pytest --dist worksteal $(PYTEST_ARGS)

quick: $(TESTED)  ## run the tests that take moments, after each change: 90 seconds
	$(PYTEST) -n 2 -m "not medium and not slow"

test: $(TESTED)  ## run the tests that guard a change, and the examples in the docstrings: 5 minutes
	$(PYTEST) -n 4 -m "not slow"

test-all: test  ## run the statistical and the long tests too
	$(PYTEST) -n 2 -m slow

# Kernels run once as plain Python, so that their lines count.
KERNELS := tests/tensor $(patsubst %,tests/model/test_%.py,likelihood solve sweep)
coverage: $(TESTED)  ## measure how much of src the tests run, by lines and branches; at least 90 % must be
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -n 2 --dist worksteal -m "not slow"
	NUMBA_DISABLE_JIT=1 $(BIN)/coverage run -m pytest -n 2 --dist worksteal -m "not medium and not slow" $(KERNELS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

lint: $(TESTED)  ## check style, formatting, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# ARGS=--quick takes 3 minutes; ARGS="rounds scale" measures only these, ARGS="against --commit HEAD~1" beside a commit; ARGS=beds plays for hours. Peers need: pip install -r benchmarks/requirements.txt.
bench: $(TESTED)  ## measure speed and regret beside twins and peers; page and figures in out/bench
	$(BIN)/python -m benchmarks $(ARGS)

# ARGS="figure2 --quick" runs one item in a minute. A run that was stopped goes on where it was.
reproduce: ARGS ?= all
reproduce: $(VENV)/with-paper  ## run the paper's evaluation; report and figures in out/reproduce
	$(BIN)/tensorbandits reproduce $(ARGS)

docs: $(TESTED)  ## build the documentation into build/docs
	$(BIN)/mkdocs build --strict

notebook: $(TESTED)  ## run docs/campaign.ipynb again, and keep what it shows
	mkdir -p build && cd build && ../$(BIN)/jupyter execute --inplace ../docs/campaign.ipynb

clean:  ## remove everything that the other targets made
	rm -rf $(VENV) out build dist .coverage* .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests benchmarks docs -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

$(VENV)/with-%: $(VENV)/made
	$(PIP) --no-build-isolation -e '.[$(NEEDS_$*)]'
	@touch $@

# The build tools are installed first, so that they too come from the lock file.
$(VENV)/made: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "error: tensorbandits needs Python 3.11 or newer, but '$(PYTHON)' is" \
	    "$$($(PYTHON) --version 2>&1 | tail -n 1 | grep -i '^python [0-9]' || echo 'not a working Python')." >&2; \
	  echo "Name another one, for example: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; \
	  exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	$(PIP) hatchling editables setuptools
	@touch $@
