# Every command of the project. Each installs and builds what it needs; `make` alone lists them.

# cargo and uv may be outside of PATH: in the folder of rustup, and where .ci/setup installs uv.
export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(CURDIR)/build/uv/bin

PYTHON_BIN := .venv/bin
PYTEST := $(PYTHON_BIN)/python -m pytest
# One worker runs all tests of a file, so that they share fixtures. The longest files begin first (tests/later.py).
FILES := --dist loadfile --no-loadscope-reorder
# Two more than there are cores, because tests wait for processes that they start; on two cores, 4.
WORKERS := $(shell cores=$$(getconf _NPROCESSORS_ONLN); echo $$((cores < 2 ? cores + 2 : 4)))
PARALLEL := --numprocesses $(WORKERS) $(FILES)
IN_MEMORY := PYTEST_DEBUG_TEMPROOT="$$(.ci/memory 4)"
# Each worker may have Spark, Airflow and an S3 server at the same time, which take about 3 GB of memory, and wait for
# them half of the time. The environments of the wheels take some GB.
SERVERS := --numprocesses 4 $(FILES)
FUZZ := segment
# With the settings of `make build`, or pyo3 and the binding would be compiled again after each change between the two.
CARGO = PYO3_BUILD_EXTENSION_MODULE=1 \
	$(addprefix PYO3_CONFIG_FILE=,$(firstword $(wildcard $(CURDIR)/target/maturin/pyo3-config-*.txt))) cargo
PIN := uv pip compile --universal --generate-hashes --no-emit-index-url --no-emit-find-links --no-config \
	--custom-compile-command "make pins" --quiet --upgrade

.DEFAULT_GOAL := help
.PHONY: help setup build wheel wheels pythons demo docs pictures fmt lint lint-python lint-rust test bench check check-servers fuzz chaos exhaustive pins

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

setup: ## install the pinned packages into .venv, and the test servers (S3, PostgreSQL); quick if nothing changed
	@.ci/setup
	@$(PYTHON_BIN)/python -m tests.servers.s3 setup
	@$(PYTHON_BIN)/python -m tests.servers.postgres setup

build: setup ## compile the Rust core and install tidemill into .venv as an editable package
	@.ci/build

wheel: setup ## build the wheel, in dist/
	uv build --wheel

wheels: ## build the wheels for Linux on x86_64 and aarch64 with Zig, in dist/; ARGS=aarch64 builds one
	@.ci/wheels $(ARGS)

pythons: setup ## build a wheel and run tests with it on other Pythons; PYTHONS="3.12 3.13", TESTS for others
	@TESTS="$(TESTS)" .ci/pythons $(PYTHONS)

demo: build ## run the demo on local Spark: a year of real flights
	@$(PYTHON_BIN)/tidemill demo $(ARGS)

docs: build ## build the documentation site, in build/site; a dead link fails
	@NO_MKDOCS_2_WARNING=1 $(PYTHON_BIN)/mkdocs build --strict

pictures: setup ## draw docs/pictures/*.svg from the sources beside them, and photograph the report if there is a Chromium
	@$(PYTHON_BIN)/python docs/pictures/make.py

fmt: setup ## format Python and Rust
	@$(PYTHON_BIN)/ruff check --quiet --fix --select I .
	@$(PYTHON_BIN)/ruff format --quiet .
	@cargo fmt --all

lint: build ## check format, ruff, wording, mypy, imports between packages, clippy
	@$(MAKE) --no-print-directory --jobs 2 lint-rust lint-python

lint-python:
	$(PYTHON_BIN)/ruff format --check --quiet .
	$(PYTHON_BIN)/ruff check --quiet .
	$(PYTHON_BIN)/python .ci/prose.py
	$(PYTHON_BIN)/mypy
	$(PYTHON_BIN)/lint-imports

lint-rust:
	cargo fmt --all --check
	$(CARGO) clippy --release --quiet --locked --workspace --all-targets -- -D warnings
	$(CARGO) clippy --release --quiet --locked --manifest-path fuzz/Cargo.toml --no-default-features --target-dir target \
		--all-targets -- -D warnings

test: build ## run all Python tests except those marked slow or servers
	@$(IN_MEMORY) $(PYTEST) -q -m "not slow and not servers" $(PARALLEL) $(ARGS)

bench: build ## measure figures for benchmarks/README.md; BENCH=operators or state_core, ARGS for options
	@$(PYTHON_BIN)/python benchmarks/$(or $(BENCH),first_light).py $(ARGS)

check: lint ## run lint, Rust tests, and all Python tests that need no servers; CI runs this and check-servers
	$(CARGO) test --release --quiet --locked --workspace
	$(IN_MEMORY) $(PYTEST) -q -m "not servers" $(PARALLEL) $(ARGS)

check-servers: build ## run the tests that need S3, PostgreSQL, Airflow, Spark, a browser, or environments of wheels
	PYTEST_DEBUG_TEMPROOT="$$(.ci/memory 12)" $(PYTEST) -q -m servers $(SERVERS) $(ARGS)

fuzz: build ## fuzz the segment readers (nightly Rust, cargo-fuzz); FUZZ=cache, csv, json or parquet for others, ARGS for libFuzzer
	@$(PYTHON_BIN)/python fuzz/seeds.py build/fuzz/seeds
	@mkdir -p build/fuzz/corpus/$(FUZZ) build/fuzz/seeds/$(FUZZ) build/fuzz/found
	cargo +nightly fuzz run --fuzz-dir fuzz --target-dir build/fuzz/target $(FUZZ) \
		build/fuzz/corpus/$(FUZZ) build/fuzz/seeds/$(FUZZ) -- -artifact_prefix=build/fuzz/found/ \
		-malloc_limit_mb=160 -rss_limit_mb=1024 -max_len=16384 -timeout=10 $(or $(ARGS),-max_total_time=600)

chaos: build ## kill and stop real processes on a folder and on S3 for CHAOS_SECONDS (600); TIDEMILL_SEED repeats, TIDEMILL_MINIO adds MinIO
	@$(PYTHON_BIN)/python -m tests.crash.chaos

exhaustive: build ## try every damage, restore, failed write, and longer random runs, of which `make check` tries a sample; takes hours
	TIDEMILL_EXHAUSTIVE=1 $(IN_MEMORY) $(PYTEST) -q $(SERVERS) tests/crash tests/model tests/unit $(ARGS)

pins: ## write requirements/*.txt again from pyproject.toml (needs uv)
	$(PIN) --python-version 3.11 --all-extras --group dev --output-file requirements/dev.txt pyproject.toml
	$(PIN) --python-version 3.11 --resolution lowest-direct --group oldest --output-file requirements/oldest.txt \
		pyproject.toml
	$(PIN) --output-file requirements/uv.txt requirements/uv.in
	$(PIN) --python-version 3.11 --output-file requirements/wheels.txt requirements/wheels.in
	$(PIN) --output-file tests/servers/requirements-s3.txt tests/servers/requirements-s3.in
	$(PIN) --output-file tests/servers/requirements-postgres.txt tests/servers/requirements-postgres.in
