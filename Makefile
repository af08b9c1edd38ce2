# crdtstream: `make up` starts three regions on this machine, `make test` tests everything,
# `make test-fast` what one wants to know after each change.
# Both first make what they need: .venv with the dependencies, .tools with programs for tests.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TOOLS := .tools
# What downloads something is tried three times; make lock writes which versions are installed.
AGAIN := tools/again.sh
PIP := $(AGAIN) $(BIN)/python -m pip --disable-pip-version-check
LOCK := requirements.lock
LOCKED := --constraint $(LOCK) --build-constraint $(LOCK)
# Environments of programs that want other versions than the tests do.
LOCKS := tools/locks
pip_of = $(AGAIN) $(TOOLS)/$(1)/bin/python -m pip --disable-pip-version-check install --quiet \
	--requirement $(LOCKS)/$(1).lock
# Further words for the program that a target runs: make test ARGS='-k frontier -x'
ARGS ?=
# Tests at a time, twice as many as a small machine has cores, as many of them wait for something;
# files of tests are dealt out whole, and all that want Spark go to one worker.
JOBS ?= 4
# Long tests keep the processor busy, so fewer run at a time.
LONG_JOBS ?= 2
# Of the compiler: FAST_ARGS=--quick compiles in less time, for tests.
FAST_ARGS ?=
SEEDS ?= 10000
SIM_SEEDS ?= 100000
FUZZ_SECONDS ?= 3600
# Tests in process of commands, merging, members and scenarios, about a minute of them.
FAST_TESTS := $(addprefix tests/,commands core database membership region scenario)
FAST_JOBS ?= 2
# Folders whose tests start processes, or Java; other Pythons leave them out.
SLOW_TESTS := clients like_redis live mutations resp spark

# Those of the sources and of the tests themselves.
HOUSE_TESTS := $(wildcard tests/test_*.py) tests/mutations
# Folders whose tests run on compiled code as well.
COMPILED_TESTS := tests/test_compiled.py $(addprefix tests/,core commands database fuzz region resp scenario sim)

# On each other Python those that show what mypyc makes of the code; the rest has no reason to differ.
PYTHONS_COMPILED_TESTS := tests/test_compiled.py $(addprefix tests/,core commands database scenario)

# PySpark as old as pyproject.toml allows, in an environment that has the rest of $(VENV), and the
# tests that show what it makes of the data source and archives.
SPARK_OLDEST := $(shell sed -n 's/.*"pyspark>=\([0-9.]*\)[,"].*/\1/p' pyproject.toml)
SPARK_OLDEST_VENV := $(VENV)-spark-$(SPARK_OLDEST)
SPARK_OLDEST_STAMP := $(SPARK_OLDEST_VENV)/.installed
SPARK_OLDEST_TESTS := $(addprefix tests/spark/test_,entries.py stream_offsets.py unlimited_reader.py \
	stream_source.py archive.py)

# A node starts in half the time if Python may keep what it made of the sources; tests start hundreds.
unexport PYTHONDONTWRITEBYTECODE

# These files say what is installed; they are as old as the pyproject.toml they were made from, or
# newer, and so a second start installs nothing.
RUN_STAMP := $(VENV)/.installed-run
DEV_STAMP := $(VENV)/.installed-dev
COMPILE_STAMP := $(VENV)/.installed-compile
IREDIS_STAMP := $(TOOLS)/iredis/.installed
CHAOS_STAMP := $(TOOLS)/chaos/.installed
NODE_STAMP := $(TOOLS)/node/.installed
JEDIS_STAMP := $(TOOLS)/jedis/.installed
KUBERNETES_STAMP := $(TOOLS)/kubernetes-validate/.installed
REDIS_TESTS_STAMP := $(TOOLS)/redis-tests/.installed
# For each Python the same one.
HELM := $(TOOLS)/helm/bin/helm
GO_REDIS_TESTS := $(TOOLS)/go-redis-tests/bin/go-redis-tests
GO_TOOLS := $(BIN)/toxiproxy-server $(GO_REDIS_TESTS)
# Built for `make test` where Go, npm and Java are found; without them the tests that need these
# programs are skipped, and say so.
BUILT_TOOLS := $(if $(shell command -v go),$(GO_TOOLS)) $(if $(shell command -v npm),$(NODE_STAMP)) \
	$(if $(shell command -v java),$(JEDIS_STAMP))
GENERATED := crdtstream/v1/effects_pb2.py
FORMATTED := $(wildcard crdtstream tests tools benchmarks deploy)
workers = $(if $(filter-out 1,$(1)),-n $(1) --dist loadfile --no-loadscope-reorder)
WORKERS := $(call workers,$(JOBS))
LONG_WORKERS := $(call workers,$(LONG_JOBS))

.DEFAULT_GOAL := help
.PHONY: help up fast demo pipeline-demo drills test test-fast test-compiled test-long long lock test-pythons test-python test-spark-oldest wheel test-wheel check format proto docs site tools bench bench-storage bench-pipeline soak clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */|/' | \
		awk -F'|' '{ printf "  make %-14s %s\n", $$1, $$2 }'

up: $(RUN_STAMP) $(GENERATED)  ## start three regions here; Ctrl-C stops them (ARGS='--regions 5')
	@$(BIN)/python tools/fast.py --hint
	$(BIN)/crdtstream up $(ARGS)

fast: $(COMPILE_STAMP) $(GENERATED)  ## compile the hot paths, once for these sources (wants gcc)
	$(BIN)/python tools/fast.py $(FAST_ARGS)

demo: $(DEV_STAMP) $(GENERATED)  ## a year of weather, written in three regions at once
	$(BIN)/crdtstream demo $(ARGS)

pipeline-demo: $(DEV_STAMP) $(GENERATED)  ## 336,776 flights through three regions into Spark (wants Java 17)
	$(BIN)/crdtstream pipeline demo $(ARGS)

test: $(DEV_STAMP) $(IREDIS_STAMP) $(BUILT_TOOLS) $(GENERATED)  ## tests of everything (ARGS='-k name' for some, JOBS=1 for one at a time)
	$(BIN)/python -m pytest -m "not soak and not long and not house" --durations 20 $(WORKERS) --ignore tests/mutations $(ARGS)

test-long: $(DEV_STAMP) $(CHAOS_STAMP) $(BUILT_TOOLS) $(REDIS_TESTS_STAMP) $(GENERATED)  ## what takes long: drills on Spark, and on whole regions (LONG_JOBS=1 for one at a time)
	$(BIN)/python -m pytest -m "long and not soak" --durations 20 $(LONG_WORKERS) $(ARGS)

long:  ## what takes longer than the gate, in shards: those that the change concerns (ARGS=--all, --list, names)
	python3 tools/shards.py $(ARGS)

lock:  ## write the versions that are installed here from now on: the newest that pyproject.toml allows
	tools/lock.sh $(PYTHON) $(LOCK) $(LOCKS)

drills: $(DEV_STAMP) $(GENERATED) $(BIN)/toxiproxy-server  ## all failover drills; their report is in drill-report/ (wants Go)
	$(BIN)/crdtstream drill run all --out drill-report $(ARGS)

IN_PROCESS := not soak and not long and not live and not house

test-fast: $(DEV_STAMP) $(GENERATED)  ## tests of commands, merging, members and scenarios, in process: about a minute
	$(BIN)/python -m pytest -q -m "$(IN_PROCESS)" $(call workers,$(FAST_JOBS)) $(FAST_TESTS) $(ARGS)

test-compiled: $(DEV_STAMP) $(GENERATED) fast  ## core, commands, RESP, engine and scenarios, compiled
	CRDTSTREAM_PURE=0 $(BIN)/python -m pytest -m "not soak" $(WORKERS) $(COMPILED_TESTS) $(ARGS)

test-pythons:  ## fast and compiled tests and live regions on each other supported Python here (ONLY=3.12)
	tools/pythons.sh $(PYTHON) $(ONLY)

# One Python's part of `make test-pythons`, in its own environment.
test-python: $(DEV_STAMP) $(GENERATED) $(if $(shell command -v go),$(BIN)/toxiproxy-server)
	$(BIN)/python -m pytest -q -m "$(IN_PROCESS)" $(WORKERS) $(SLOW_TESTS:%=--ignore tests/%)
	$(MAKE) test-compiled COMPILED_TESTS="$(PYTHONS_COMPILED_TESTS)"
	$(BIN)/python -m pytest -m "not soak and not long" tests/live/test_nodes.py

# Delta Lake is part of a session from its start, so its tests have one of their own.
test-spark-oldest: $(SPARK_OLDEST_STAMP) $(GENERATED)  ## the data source, archives and Delta Lake with the oldest PySpark (wants Java 17, Maven's jars)
	$(SPARK_OLDEST_VENV)/bin/python -m pytest -m "not soak" -k "not kills" --durations 10 $(SPARK_OLDEST_TESTS) $(ARGS)
	$(SPARK_OLDEST_VENV)/bin/python -m pytest -m "not soak" tests/spark/test_delta.py $(ARGS)

wheel: $(COMPILE_STAMP) $(GENERATED)  ## a compiled wheel for this Python, in dist/
	$(PIP) wheel --quiet --no-deps --build-constraint $(LOCK) --wheel-dir dist .

test-wheel: wheel  ## install the wheel in a fresh environment, and ask a node of it
	$(BIN)/python tools/try_wheel.py "$$(ls -t dist/*.whl | head -n 1)"

check: $(DEV_STAMP) $(GENERATED)  ## format, lint, strict types, import layers, words, planted bugs that fit, generated code
	$(BIN)/ruff format --check $(FORMATTED)
	$(BIN)/ruff check $(FORMATTED)
	$(BIN)/mypy --num-workers auto
	$(BIN)/python tools/proto.py --check
	$(BIN)/python tools/commands.py --check
	$(BIN)/python tools/semantics.py --check
	$(BIN)/python tools/drills.py --check
	$(BIN)/python tools/metrics.py --check
	$(BIN)/python tools/logs.py --check
	$(BIN)/python tools/dependencies.py --check
	$(BIN)/crdtstream scenario lint scenarios
	$(BIN)/crdtstream drill lint scenarios/drills
	$(BIN)/python -m pytest -q -m "house and not soak" --durations 5 $(WORKERS) $(HOUSE_TESTS) $(ARGS)

format: $(DEV_STAMP)  ## bring the sources into shape
	$(BIN)/ruff format $(FORMATTED)
	$(BIN)/ruff check --fix $(FORMATTED)

proto: $(DEV_STAMP)  ## generate crdtstream/v1 from proto/
	$(BIN)/python tools/proto.py

docs: $(DEV_STAMP)  ## write what the programs know of themselves into docs/
	$(BIN)/python tools/commands.py
	$(BIN)/python tools/semantics.py
	$(BIN)/python tools/drills.py
	$(BIN)/python tools/metrics.py
	$(BIN)/python tools/logs.py
	$(BIN)/python tools/dependencies.py
	$(BIN)/python -m benchmarks --pages

site: $(DEV_STAMP)  ## the documentation as a site in site/, for any web server; warnings are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --config-file tools/site/mkdocs.yml $(ARGS)

tools: $(GO_TOOLS) $(HELM) $(IREDIS_STAMP) $(CHAOS_STAMP) $(NODE_STAMP) $(JEDIS_STAMP) $(KUBERNETES_STAMP) $(REDIS_TESTS_STAMP)  ## programs that some tests drive (wants Go, npm, Java)

bench: $(DEV_STAMP) $(GENERATED)  ## speed beside redis-server and nats-server, in one run (ARGS='--part xadd')
	$(BIN)/python -m benchmarks $(ARGS)

bench-storage: $(DEV_STAMP) $(GENERATED)  ## memory, disk and restarts beside redis-server's (ARGS='restart --entries 5000000')
	$(BIN)/python -m benchmarks.storage $(ARGS)

bench-pipeline: $(DEV_STAMP) $(GENERATED)  ## reading into Spark beside XRANGE and Parquet (wants Java 17)
	$(BIN)/python -m benchmarks.pipeline $(ARGS)

soak: $(DEV_STAMP) $(GENERATED)  ## the long tests: many seeds (SEEDS=10000, of the simulator SIM_SEEDS=100000), new examples, fuzzing (FUZZ_SECONDS=3600 for each surface), planted bugs
	CRDTSTREAM_SEEDS=$(SEEDS) CRDTSTREAM_SIM_SEEDS=$(SIM_SEEDS) CRDTSTREAM_FUZZ_SECONDS=$(FUZZ_SECONDS) CRDTSTREAM_EXAMPLES=1 $(BIN)/python -m pytest -m "soak or hypothesis" $(ARGS)

clean:  ## remove what make made; data folders stay
	rm -rf .fast $(VENV) $(VENV)-* $(TOOLS) .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist site ci-report
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11 …" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || \
		{ echo "This Python cannot make virtual environments; on Debian: apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --constraint $(LOCK) --upgrade pip

$(RUN_STAMP): pyproject.toml $(LOCK) | $(BIN)/python
	$(PIP) install --quiet $(LOCKED) --only-binary :all: --editable .
	@touch $@

$(DEV_STAMP): pyproject.toml $(LOCK) | $(BIN)/python
	$(PIP) install --quiet $(LOCKED) --editable '.[dev]'
	@touch $(RUN_STAMP) $(COMPILE_STAMP) $@

$(COMPILE_STAMP): pyproject.toml $(LOCK) | $(RUN_STAMP)
	$(PIP) install --quiet $(LOCKED) --only-binary :all: --editable '.[compile]'
	@touch $@

# What is not in this environment is taken from the other one.
$(SPARK_OLDEST_STAMP): $(DEV_STAMP)
	$(BIN)/python -m venv $(SPARK_OLDEST_VENV)
	$(BIN)/python -c 'import sysconfig; print("import site; site.addsitedir(%r)" % sysconfig.get_path("purelib"))' \
		> "$$($(SPARK_OLDEST_VENV)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/_others.pth"
	$(AGAIN) $(SPARK_OLDEST_VENV)/bin/python -m pip --disable-pip-version-check install --quiet \
		'pyspark==$(SPARK_OLDEST)'
	@touch $@

# iredis wants an older redis-py than the tests do: an environment of its own.
$(IREDIS_STAMP): $(LOCKS)/iredis.lock | $(BIN)/python
	$(BIN)/python -m venv $(TOOLS)/iredis
	$(call pip_of,iredis)
	@touch $@

# The Chaos Toolkit is a program of its own, and wants many packages that nothing else does.
$(CHAOS_STAMP): $(LOCKS)/chaos.lock | $(BIN)/python
	$(BIN)/python -m venv $(TOOLS)/chaos
	$(call pip_of,chaos)
	@touch $@

# The schemas of Kubernetes, to which the chart is compared.
$(KUBERNETES_STAMP): $(LOCKS)/kubernetes-validate.lock | $(BIN)/python
	$(BIN)/python -m venv $(TOOLS)/kubernetes-validate
	$(call pip_of,kubernetes-validate) --no-compile
	@touch $@

# Redis's own tests, for which nodes play redis-server.
$(REDIS_TESTS_STAMP): tools/redis_tests.sh
	tools/redis_tests.sh $@

# Clients for Node.js; the copies keep what npm writes out of the sources.
$(NODE_STAMP): tests/clients/node/package.json tests/clients/node/package-lock.json
	tools/node_clients.sh $@ $^

$(BIN)/toxiproxy-server: | $(BIN)/python
	tools/toxiproxy.sh $@

# Helm itself, which checks and renders the chart, as a package: building it takes minutes.
$(HELM): $(LOCKS)/helm.lock | $(BIN)/python
	$(BIN)/python -m venv $(TOOLS)/helm
	$(call pip_of,helm)
	@touch $@

$(JEDIS_STAMP): $(wildcard tests/clients/java/*) | $(DEV_STAMP)
	tools/jedis.sh $@ $(BIN)/python

$(GO_REDIS_TESTS): $(wildcard tests/clients/go/*) | $(BIN)/python
	tools/go_redis.sh $@

# Checked in; made here only if someone removed it.  No prerequisite, as its tools would be
# installed even where it is there.
$(GENERATED):
	$(MAKE) proto
