# Everything a developer runs. `make help` lists it. CI runs these very commands.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "tocsin needs Python 3.11 or newer; name one with PYTHON=..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable . --group dev
	@touch $(STAMP)

.PHONY: setup
setup: $(STAMP) ## Make the environment in .venv

.PHONY: demo
demo: $(STAMP) ## Start everything here, fire jobs of every kind, kill a worker, and show what happened (KEEP=1 leaves it running)
	$(BIN)/tocsin demo $(if $(KEEP),--keep)

.PHONY: dev
dev: $(STAMP) ## Start a development system in the foreground
	$(BIN)/tocsin dev --echo

# Three files of tests at a time, each side with a broker and a store of its own, for most of the time of the
# slow ones is waiting: on two cores three take a quarter less than two. The slow directories come first in the
# alphabet, and the many small files of tests/unit fill up what is left. ARGS="-n 0 tests/unit/engine" runs that here.
.PHONY: test
test: $(STAMP) ## Run all tests, on a real broker and a real store (they are started and stopped here)
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder $(ARGS)

.PHONY: sim
sim: $(STAMP) ## Simulate: SEEDS=300 seeds FROM=0, or one with SEED=n and its story; fails on a violation
	$(BIN)/python -m tests.simulation $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),300) --from $(or $(FROM),0))

.PHONY: mutants
mutants: $(STAMP) ## Break each rule in turn, and show how many seeds of the simulation it takes to notice
	$(BIN)/python -m tests.simulation.hunt $(if $(SEEDS),--seeds $(SEEDS))

.PHONY: lint
lint: $(STAMP) ## Check style, types and the floor plan
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

.PHONY: format
format: $(STAMP) ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: openapi
openapi: $(STAMP) ## Write docs/openapi.json anew
	$(BIN)/python -m tocsin.roles.gateway.openapi docs/openapi.json

.PHONY: bench-burst
bench-burst: $(STAMP) ## Measure bursts of 5,000 and 50,000 jobs due at once (about five minutes, on an idle machine)
	$(BIN)/python -m benchmarks.burst $(or $(ARGS),--n 5000 50000 --bursts 3)

.PHONY: bench
bench: $(STAMP) ## Run all benchmarks in short form, twenty minutes, and show which goals hold (ARGS="burst index": only these)
	$(BIN)/python -m benchmarks.all $(ARGS)

.PHONY: bench-page
bench-page: $(STAMP) ## Write docs/benchmarks.md and docs/capacity.md from benchmarks/results
	$(BIN)/python -m benchmarks.page

.PHONY: bench-capacity
bench-capacity: $(STAMP) ## Measure single costs and write docs/capacity.md (two minutes; ARGS="--servers": those too; --page: no measuring)
	$(BIN)/python -m benchmarks.capacity $(ARGS)

.PHONY: bench-history
bench-history: $(STAMP) ## Measure events a second that a projector files (about three minutes)
	$(BIN)/python -m benchmarks.history $(ARGS)

.PHONY: bench-index
bench-index: $(STAMP) ## Measure bursts with ten thousand to two million rows pending (an hour; two of all servers)
	$(BIN)/python -m benchmarks.index $(ARGS)

.PHONY: bench-memory
bench-memory: $(STAMP) ## Measure the memory of each role with ten thousand and with a million jobs pending (half an hour)
	$(BIN)/python -m benchmarks.memory $(ARGS)

.PHONY: bench-create
bench-create: $(STAMP) ## Measure creates a second through the topic and through REST (about two minutes)
	$(BIN)/python -m benchmarks.create $(ARGS)

.PHONY: bench-steady
bench-steady: $(STAMP) ## Measure how late jobs are of which 1,000 are due each second (about five minutes)
	$(BIN)/python -m benchmarks.steady $(ARGS)

.PHONY: bench-failover
bench-failover: $(STAMP) ## Measure how late jobs are when their owner is killed, and when it stops (about three minutes)
	$(BIN)/python -m benchmarks.failover $(ARGS)

.PHONY: chaos
chaos: $(STAMP) ## Break things under load, 3 brokers and 3 stores, and check (DURATION=1800 FAULTS=kill_worker,roll NAME=part)
	$(BIN)/python -m tests.chaos --duration-s $(or $(DURATION),1800) $(if $(FAULTS),--faults $(FAULTS)) --name $(or $(NAME),all)

.PHONY: chaos-workers
chaos-workers: $(STAMP) ## Break workers while 10,000 executions run, 500 and more at once, and check (about ten minutes; ARGS="--faults kill,roll")
	$(BIN)/python -m tests.chaos.worker_run $(ARGS)

.PHONY: bench-worker
bench-worker: $(STAMP) ## Measure one worker process beside bare loops (about two minutes, on an idle machine)
	$(BIN)/python -m benchmarks.worker $(ARGS)

.PHONY: bench-fairness
bench-fairness: $(STAMP) ## Measure how long one tenant waits behind another whose target hangs or fails (about two minutes)
	$(BIN)/python -m benchmarks.fairness $(ARGS)

.PHONY: bench-next
bench-next: $(STAMP) ## Measure next occurrences a second, beside croniter and cronsim (about a minute)
	$(BIN)/python -m benchmarks.next $(ARGS)

.PHONY: bench-peers
bench-peers: $(STAMP) ## Measure other schedulers and tocsin beside them (installs what they need; over an hour; ARGS="--only river tocsin --n 20000")
	PYTHON=$(PYTHON) benchmarks/peers/setup.sh
	$(BIN)/python -m benchmarks.peers $(ARGS)

.PHONY: dist
dist: $(STAMP) ## Build the wheel
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

.PHONY: clean
clean: ## Remove the environment and everything that development systems left
	rm -rf $(VENV) .tocsin dist build .pytest_cache .mypy_cache .ruff_cache
