# The main targets are `up` and `test`. Both install everything that they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help up test all-tests test-fast pictures chromium shells check static-check lint types format bench soak chaos lock docs site demo-recheck clean dashboard dashboard-check dashboard-units dashboard-lint

# The dashboard is built if Node is installed, and again only if one of these files has changed.
DASHBOARD := src/pyoco_server/http_api/dashboard/.built
DASHBOARD_SOURCES := $(shell find dashboard docs/openapi.json -type f -not -path '*/node_modules/*' -not -name '*.pyc' -not -name schema.d.ts)

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 17

$(READY): pyproject.toml requirements-dev.lock
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --requirement requirements-dev.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(DASHBOARD): $(DASHBOARD_SOURCES) | $(READY)
	@$(BIN)/python dashboard/build.py && touch $@

dashboard: $(READY)  ## build the dashboard into the package (needs Node 20 or newer)
ifneq ($(shell command -v npm 2>/dev/null),)
	@$(MAKE) --silent --no-print-directory $(DASHBOARD)
else
	@echo "Node is not installed: the gateway runs without its dashboard and shows that at /. Install Node 20 or newer, then run make dashboard." >&2
endif

dashboard-check: dashboard dashboard-lint dashboard-units  ## check the dashboard: lint, types, unit tests

dashboard-units: dashboard
ifneq ($(shell command -v npm 2>/dev/null),)
	@cd dashboard && npm run --silent check
	@# Printed in one piece, because it runs beside other checks.
	@cd dashboard && said=$$(npm run --silent test 2>&1); ended=$$?; echo "$$said"; exit $$ended
endif

dashboard-lint: $(READY)
ifneq ($(shell command -v npm 2>/dev/null),)
	@$(BIN)/python dashboard/build.py install
	cd dashboard && npm run --silent lint
else
	@echo "npm is not installed: the dashboard's code is not linted. Install Node 20 or newer, then run make check." >&2
endif

up: $(READY) dashboard  ## start a broker, a gateway and a worker with demo flows
	@exec $(BIN)/pyoco-server up $(ARGS)

# More processes than cores: many tests wait for other processes, the end of a lease or a broker that is away.
TEST_PROCESSES ?= $(shell $(PYTHON) -c "import os; print(3 + (os.cpu_count() or 1))")

test: lint dashboard chromium shells  ## run all checks and all tests
	@$(MAKE) --no-print-directory --jobs=3 types dashboard-units all-tests

# Beside the checks that take long: each of them uses one core, and not for all of its time.
all-tests: $(READY)
	$(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist worksteal -m "not soak" $(ARGS)

# Tests that start no other process: the core, the engine, parsers and pure functions.
FAST := tests/lifecycle tests/engine tests/leaves tests/config tests/expressions tests/recheck tests/workflow_yaml \
  tests/supervision tests/flows tests/testing

test-fast: $(READY)  ## run the tests that need no broker, browser or other process (under a minute)
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not heavy and not slow and not soak" $(FAST) $(ARGS)

# For the tests with a real browser. If it cannot be installed, those tests are skipped with a message.
chromium:  ## install a browser for the tests (Debian, as root)
	@if ! command -v chromium >/dev/null; then \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; } \
	      >/dev/null 2>&1 || echo "chromium could not be installed: the tests with a browser are skipped" >&2; \
	  else \
	    echo "The tests with a browser need chromium (on Debian, as root: apt-get install chromium); they are skipped." >&2; \
	  fi; \
	fi
	@if ! command -v chromium-headless-shell >/dev/null && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium-headless-shell \
	    >/dev/null 2>&1 || echo "chromium-headless-shell could not be installed: the tests use chromium, which is slower" >&2; \
	fi

# For the tests of completion. If one cannot be installed, its tests are skipped with a message.
shells:  ## install zsh and fish for the tests (Debian, as root)
	@for shell in zsh fish; do \
	  if command -v $$shell >/dev/null; then continue; fi; \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$shell; } \
	      >/dev/null 2>&1 || echo "$$shell could not be installed: the tests of its completion are skipped" >&2; \
	  else \
	    echo "The tests of completion need $$shell (on Debian, as root: apt-get install $$shell); they are skipped." >&2; \
	  fi; \
	done

check: static-check  ## check lint, format, types, layers and tidiness
	$(BIN)/python -m pytest -q tests/tidy

# Without tests/tidy, which `make test` runs with the other tests.
static-check: lint types

lint: $(READY) dashboard-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(READY)
	$(BIN)/mypy

format: $(READY)  ## format the code as `make check` requires it
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
ifneq ($(shell command -v npm 2>/dev/null),)
	@$(BIN)/python dashboard/build.py install
	cd dashboard && npm run --silent format
else
	@echo "npm is not installed: the dashboard's code is not formatted." >&2
endif

pictures: $(READY) dashboard chromium  ## take the pictures of the dashboard in docs/img again
	$(BIN)/python -m tests.dashboard.pictures $(ARGS)

bench: $(READY)  ## measure, as ratios to a raw reference of the same run
	$(BIN)/python -m bench $(ARGS)

demo-recheck: $(READY)  ## recheck thirty example strategies, end to end
	$(BIN)/python examples/recheck/demo.py

soak: $(READY)  ## run the tests that take minutes
	$(BIN)/python -m pytest -m soak $(ARGS)

chaos: $(READY)  ## inject faults by a seed, then audit: MINUTES=30 SEED=1 BROKERS=3
	$(BIN)/python -m tests.chaos.run --minutes $(or $(MINUTES),5) --seed $(or $(SEED),1) --brokers $(or $(BROKERS),1) $(ARGS)

docs: $(READY)  ## record the examples of the API and write the generated pages
	$(BIN)/python -m tests.api_examples.record
	$(BIN)/python -m pyoco_server.cli.docs

site: $(READY)  ## build the documentation site into website/build, and check its links
	$(BIN)/python -m website.build $(ARGS)

lock: $(READY)  ## update the locked versions of the development tools
	$(BIN)/pip-compile --quiet --extra dev --extra site --strip-extras --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --output-file requirements-dev.lock pyproject.toml

clean:  ## remove everything that the targets created
	rm -rf dashboard/node_modules src/pyoco_server/http_api/dashboard
	rm -rf website/build
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis dist
