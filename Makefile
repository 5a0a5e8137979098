# Every verb of the project. Each one sets up what it needs by itself; `make` alone lists them.

# cargo and uv may lie where no PATH names them: in the folder of rustup, and where .ci/setup puts uv.
export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(CURDIR)/build/uv/bin

PYTHON_BIN := .venv/bin
PYTEST := $(PYTHON_BIN)/python -m pytest
# A file is one worker's, so that what its tests share is made once; each worker may start a Spark session.
PARALLEL := --numprocesses auto --maxprocesses 4 --dist loadfile
SLOW := --numprocesses 2 --dist loadfile
FUZZ := segment
PIN := uv pip compile --universal --generate-hashes --no-emit-index-url --no-emit-find-links --no-config \
	--custom-compile-command "make pins" --quiet --upgrade

.DEFAULT_GOAL := help
.PHONY: help setup build wheel demo docs pictures fmt lint test bench check fuzz pins

help: ## list the verbs
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

setup: ## bring .venv, and the S3 server's, to what is pinned; quick when nothing changed
	@.ci/setup
	@$(PYTHON_BIN)/python tests/servers/s3.py setup

build: setup ## compile the Rust core and install tidemill into .venv, editable
	@.ci/build

wheel: setup ## make the wheel, in dist/
	uv build --wheel

demo: build ## run the main job: a year of real flights, on local Spark
	@$(PYTHON_BIN)/tidemill demo $(ARGS)

docs: build ## build the documentation site, in build/site; a dead link fails
	@NO_MKDOCS_2_WARNING=1 $(PYTHON_BIN)/mkdocs build --strict

pictures: setup ## draw docs/pictures/*.svg from the sources beside them
	@$(PYTHON_BIN)/python docs/pictures/make.py

fmt: setup ## format Python and Rust
	@$(PYTHON_BIN)/ruff check --quiet --fix --select I .
	@$(PYTHON_BIN)/ruff format --quiet .
	@cargo fmt --all

lint: build ## format check, ruff, mypy, arrows between rooms, clippy
	$(PYTHON_BIN)/ruff format --check --quiet .
	$(PYTHON_BIN)/ruff check --quiet .
	$(PYTHON_BIN)/mypy
	$(PYTHON_BIN)/lint-imports
	cargo fmt --all --check
	cargo clippy --release --quiet --locked --workspace --all-targets -- -D warnings
	cargo clippy --release --quiet --locked --manifest-path fuzz/Cargo.toml --no-default-features --target-dir target \
		--all-targets -- -D warnings

test: build ## the whole Python suite but for what `make check` adds (marked slow)
	@$(PYTEST) -q -m "not slow" $(PARALLEL) $(ARGS)

bench: build ## figures for benchmarks/README.md; gates nothing
	@$(PYTHON_BIN)/python benchmarks/$(or $(BENCH),first_light).py $(ARGS)

check: lint ## all that CI runs: lint, Rust tests, slow tests, and `make test`
	cargo test --release --quiet --locked --workspace
	$(PYTEST) -q -m slow $(SLOW)
	@$(MAKE) --no-print-directory test

fuzz: build ## damaged segments, by libFuzzer (nightly, cargo-fuzz): FUZZ=cache for the cache on disk, ARGS for libFuzzer
	@$(PYTHON_BIN)/python fuzz/seeds.py build/fuzz/seeds
	@mkdir -p build/fuzz/corpus/$(FUZZ) build/fuzz/found
	cargo +nightly fuzz run --fuzz-dir fuzz --target-dir build/fuzz/target $(FUZZ) \
		build/fuzz/corpus/$(FUZZ) build/fuzz/seeds/$(FUZZ) -- -artifact_prefix=build/fuzz/found/ \
		-malloc_limit_mb=96 -rss_limit_mb=1024 -max_len=16384 -timeout=10 $(or $(ARGS),-max_total_time=600)

pins: ## write requirements/*.txt anew from pyproject.toml (needs uv)
	$(PIN) --python-version 3.11 --all-extras --group dev --output-file requirements/dev.txt pyproject.toml
	$(PIN) --python-version 3.11 --resolution lowest-direct --group oldest --output-file requirements/oldest.txt \
		pyproject.toml
	$(PIN) --output-file requirements/uv.txt requirements/uv.in
	$(PIN) --output-file tests/servers/requirements-s3.txt tests/servers/requirements-s3.in
