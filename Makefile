# make run and make test are all that a newcomer needs; make help lists the rest.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules

# The interpreter that makes the virtual environment: make run PYTHON=python3.12
PYTHON ?= python3
VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check --quiet

# The folders that hold import packages (pyproject.toml says the same), and those of them that stand.
ROOTS := . schema planner executors native/python
PACKAGES := $(patsubst %/__init__.py,%,$(wildcard xmml/__init__.py $(foreach root,$(ROOTS),$(root)/xmml_*/__init__.py $(root)/snakemake_executor_plugin_xmml/__init__.py)))

# C++ that is held to .clang-format.
CPP := $(shell find native/cpp tests/bindings/native_cpp -name '*.hpp' -o -name '*.cpp')

# What the compiled parts are made of. Python files are not among them: the installation is editable.
COMPILED := pyproject.toml setup.py Cargo.toml Cargo.lock \
	$(shell find native mto -name '*.rs' -o -name Cargo.toml -o -name '*.h' -o -name '*.hpp' -o -name '*.in' -o -name "*.cmake" -o -path "native/fortran/*" \
	-o -path "native/java/*.py" -o -name "*.java")

# A virtual environment of the tools that look after what xMML is made of, which needs no built xMML.
SUPPLY := target/supply-chain
LOCK := uv pip compile --quiet --no-config --upgrade --universal --generate-hashes --python-version 3.11 --custom-compile-command 'make lock'

# The same for cargo alone as for the build through pip, or pyo3 would be compiled again each time one follows the other.
export PYO3_PYTHON := $(BIN)/python
export PYO3_BUILD_EXTENSION_MODULE := 1
export PATH := $(BIN):$(PATH)

# The extras of pyproject.toml that what is to be made needs as well.
EXTRAS := $(filter lint,$(MAKECMDGOALS)) $(if $(filter test test-fast test-python soak fuzz bench thread-sanitizer,$(MAKECMDGOALS)),test)

.PHONY: help run test test-fast test-rust test-python lint format soak fuzz fuzz-native miri thread-sanitizer bench pictures build audit lock sbom release tools clean

help: ## what there is to make
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-20s %s\n", $$1, $$2 }'

run: build ## build, run the network of canals, say where the results are
# The model runs a make of its own, which is none of ours.
	@env -u MAKEFLAGS -u MAKELEVEL xmml-run workflows/canal/model.xmml

test: build $(VENV)/.test ## install what the tests need and run all of them
	@.ci/test

test-fast: build $(VENV)/.test ## the tests for every edit: no root, no network but loopback, no cluster; below two minutes
	@.ci/test-rust --fast
	@pytest --quiet --numprocesses auto --dist loadfile tests/unit tests/structure

test-rust: build ## the tests of the Rust crates
	@.ci/test-rust

test-python: build $(VENV)/.test ## the tests of everything else: make test-python ARGS="-k canal"
	@pytest $(ARGS)

lint: build $(VENV)/.lint ## style and types, as errors
	ruff check .
	ruff format --check .
	pytest --quiet tests/structure
	mypy $(PACKAGES)
# The compiled module has an __all__, which the stub need not repeat.
	python -m mypy.stubtest xmml_native._native --concise --allowlist <(echo xmml_native._native.__all__)
	clang-format --dry-run -Werror $(CPP)
	python native/java/lint.py
	cargo fmt --all --check
	cargo clippy --release --workspace --all-targets --locked -- -D warnings

format: $(VENV)/.lint ## put Python and Rust files into the shape that lint wants
	ruff check --fix .
	ruff format .
	clang-format -i $(CPP)
	cargo fmt --all

soak: build $(VENV)/.test ## the tests with their full numbers (long)
	XMML_SOAK=1 .ci/test-rust
	XMML_SOAK=1 pytest -o timeout=7200 $(ARGS)

fuzz: build $(VENV)/.test ## a million random inputs: make fuzz ARGS="--seed 2" (a quarter of an hour)
	python tests/fuzz/campaign.py --inputs 1000000 --summary tests/fuzz/campaign.txt $(ARGS)

# The name is bash's own, so that it is passed on only if it was given to make.
fuzz-native: ## cargo-fuzz drives every reader of foreign bytes: make fuzz-native SECONDS=600 ARGS="frames listener"
	tests/fuzz/native/campaign $(if $(filter command line,$(origin SECONDS)),$(SECONDS),60) $(ARGS)

miri: ## the unit tests of the crates, as far as they need no foreign code, interpreted by Miri (needs a nightly compiler with it)
	native/miri $(ARGS)

thread-sanitizer: build $(VENV)/.test ## the crates, and programs in C and C++, under the thread sanitizer (needs a nightly compiler with its source)
	native/thread-sanitizer $(ARGS)

bench: build $(VENV)/.test ## the benchmarks, as tables and plots
	@python benchmarks/prepare.py
	@for suite in benchmarks/*/run.py; do echo "== $$suite"; python "$$suite"; done

pictures: build ## draw the pictures in docs/ again (needs Graphviz)
	@docs/draw-pictures

audit: $(SUPPLY)/.installed ## known advisories, licences and sources of all that xMML is made of: make audit ARGS=--snapshot asks no database
	@python supply-chain/audit.py $(ARGS)

lock: $(SUPPLY)/.installed ## renew requirements.lock and supply-chain/tools.lock: the newest versions that pyproject.toml allows
	python .ci/extra.py build | $(LOCK) --extra archives --extra mpi --extra sites --extra snakemake --output-file requirements.lock pyproject.toml -
	cd supply-chain && $(LOCK) --output-file tools.lock tools.in

sbom: $(SUPPLY)/.installed ## the bill of materials of a release, in CycloneDX: target/sbom
	@python supply-chain/sbom.py target/sbom

release: $(SUPPLY)/.installed ## the commit and the tag of a release: make release VERSION=0.2.0 (CONTRIBUTING.md)
	@.ci/release $(VERSION)

build: $(VENV)/.installed ## the virtual environment .venv with xmml in it

tools: ## are the tools there that building needs?
	@PYTHON='$(PYTHON)' .ci/check-tools

$(VENV)/.installed: $(COMPILED)
	@PYTHON='$(PYTHON)' .ci/check-tools
	@echo "Building xMML into $(VENV) (the first time: about 25 minutes of processor time)"
	@[ -x $(VENV)/bin/python ] || '$(PYTHON)' -m venv $(VENV)
	@$(PIP) install $$($(VENV)/bin/python .ci/extra.py build)
	@echo "Building 1 of 2: the core"
# One processor compiles the core for more than a minute: what others have made is fetched and installed meanwhile.
	@cargo build --release --locked --quiet --package xmml-core --package xmml-path & core=$$!; \
	{ $(if $(filter test,$(EXTRAS)),.ci/install-test-packages &&) $(PIP) install $$(python .ci/extra.py dependencies $(EXTRAS)); } || { kill $$core; exit 1; }; \
	wait $$core
	@echo "Building 2 of 2: the Python module, the relay, C, Java, Fortran"
	@$(PIP) install --no-build-isolation --editable .
# Plain paths instead of setuptools' import hook: they are seen by type checkers and by searches for plugins, and do not cost
# every Python process of a run 5 ms.
	@for root in $(ROOTS); do echo "$(CURDIR)/$$root"; done > $$(echo $(VENV)/lib/python3*/site-packages/__editable__.xmml-*.pth)
	@touch $@
	@echo "Built. For xmml-run, xmml and xmml-config on your path: . $(VENV)/bin/activate"

$(VENV)/.test: pyproject.toml .ci/install-test-packages | build
	@.ci/install-test-packages
	@$(PIP) install $$(python .ci/extra.py test)
	@touch $@

$(VENV)/.lint: pyproject.toml .ci/extra.py | build
	@cargo fmt --version >/dev/null && cargo clippy --version >/dev/null || { \
		echo "make lint needs rustfmt and clippy: rustup component add rustfmt clippy" >&2; exit 1; }
# What is looked at imports what the tests need.
	@$(PIP) install $$(python .ci/extra.py lint test)
	@touch $@

$(SUPPLY)/.installed: supply-chain/tools.lock
	@'$(PYTHON)' -m venv --clear $(SUPPLY)
	@$(SUPPLY)/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes --only-binary :all: --requirement $<
	@touch $@

audit lock sbom release: private export PATH := $(CURDIR)/$(SUPPLY)/bin:$(PATH)

clean: ## remove everything that was built
	rm -rf $(VENV) target build dist *.egg-info native/python/xmml_native/sdk native/python/xmml_native/bin native/python/xmml_native/*.so
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
