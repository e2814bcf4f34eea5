# Everything here works in a fresh checkout: each target creates .venv first (scripts/setup.sh).
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SOURCES := liftlog sim jepsen spec tests examples

# Tests start hundreds of nodes and commands. Where the environment says to write no bytecode, each of them would
# compile the sources anew, which costs half as much again as its whole start does otherwise.
unexport PYTHONDONTWRITEBYTECODE

DEMO_ARGS ?=
JOBS ?= 2
CHECK_SEEDS ?= 0:20
NIGHTLY_SEEDS ?= 0:20000

.PHONY: help venv demo test test-computing test-real check lint types compiled sweep-record browser gallery nightly jepsen-zip clean

help:  ## what can be made
	@awk -F ':.*  ## ' '/^[a-z-]+:.*  ## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

venv: $(STAMP)  ## .venv with .venv/bin/liftlog

$(STAMP): pyproject.toml constraints.txt scripts/setup.sh scripts/locked.py
	@scripts/setup.sh
	@touch $@

demo: venv  ## the whole story in under four minutes (DEMO_ARGS="--messages 50000" shortens it)
	@$(BIN)/liftlog demo $(DEMO_ARGS)

test: venv browser lint  ## everything that CI runs; types, what computes and what waits for processes, side by side
	@$(MAKE) --no-print-directory -j 3 types test-computing test-real

test-computing:
	$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal -m "not nightly and not real"

test-real:
	$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal -m "real and not nightly"

check: venv lint types  ## the inner loop, under 90 seconds: the quick tests and a short sweep
	$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal -m "not slow and not real and not nightly"
	$(BIN)/liftlog sim sweep --seeds $(CHECK_SEEDS) --jobs $(JOBS)

sweep-record: venv  ## sweep seeds 0:1000 and, if that is clean, write the record that CI compares with the code
	$(BIN)/liftlog sim sweep --seeds 0:1000 --faults all --jobs $(JOBS) --record tests/golden/sweep.json

browser:  ## a headless Chromium for the tests that open reports; without one they are skipped
	@scripts/browser.sh >/dev/null || true

gallery: venv browser  ## the pictures of docs/gallery, made anew
	$(BIN)/python scripts/gallery.py docs/gallery

lint: venv  ## ruff: errors, imports, formatting rules
	$(BIN)/ruff check $(SOURCES)

types: venv  ## mypy --strict
	$(BIN)/mypy

compiled: venv  ## build/compiled, a faster copy for sweeps: PYTHONPATH=build/compiled .venv/bin/liftlog sim sweep ...
	$(BIN)/python scripts/compile.py --jobs $(JOBS)

MODELS := twophase raft raft-steps isr isr-steps isr-pair leases raft-membership raft-snapshots compaction removal producers expectations dead-letters mirrors named-origins sources filtered-reads full-subjects activity subject-limits front-limits times-to-live markers roll-ups work-queue priority-groups interest batches fast-batches message-ids births processor openings consumers groups nats-streaming commands
KAFKA := --replicas 2 --log-size 3 --records 3 --epochs 3

nightly: test compiled  ## the longest tests, long sweeps in both gears, every mutant caught and shrunk, every model and proof, the checker at 100M operations, the demo
	$(BIN)/python -m pytest -m nightly
	PYTHONPATH=build/compiled $(BIN)/liftlog sim sweep --seeds $(NIGHTLY_SEEDS) --coverage --audit --twice 0.05 --jobs $(JOBS)
	$(BIN)/liftlog sim sweep --gear trio --seeds 0:500 --twice 0.1 --jobs $(JOBS)
	$(BIN)/liftlog sim sweep --seeds 0:2000 --faults disk --jobs $(JOBS)
	$(BIN)/liftlog sim sweep --seeds 0:500 --faults lies --jobs $(JOBS)
	$(BIN)/liftlog sim fuzz --inputs 10M --jobs $(JOBS)
	$(BIN)/liftlog sim mutants
	$(BIN)/liftlog sim mutants --shrink --jobs $(JOBS)
	$(BIN)/python scripts/insight.py
	$(BIN)/liftlog sim cover
	for model in $(MODELS); do $(BIN)/liftlog spec check --model $$model --jobs $(JOBS) || exit 1; done
	for variant in kip-279 kip-320; do \
	  $(BIN)/liftlog spec check --model kafka --variant $$variant $(KAFKA) --jobs $(JOBS) || exit 1; done
	if [ -n "$$TLA2TOOLS_JAR" ]; then $(BIN)/liftlog spec tlc || exit 1; fi
	$(BIN)/liftlog spec prove --minimal
	for mapping in raft-election raft-log raft-membership isr compaction; do $(BIN)/liftlog spec map --mapping $$mapping || exit 1; done
	$(BIN)/liftlog jepsen bench --operations 1M,10M,100M --hot --cycles --driver-memory 8g
	$(BIN)/liftlog demo

jepsen-zip: venv  ## build/jepsen.zip for spark-submit --py-files
	@$(BIN)/python scripts/jepsen_zip.py build/jepsen.zip

clean:  ## remove what was built; keeps .venv and store
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
