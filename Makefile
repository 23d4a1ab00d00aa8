.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
ARGS ?=

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

lock: ## Resolve both locks again (no index address in either)
	$(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --group embedded --group training --group dev pyproject.toml -o requirements/app.lock
	$(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url requirements/triton.in -o requirements/triton.lock

.venv/.locked: requirements/app.lock
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet "uv==0.13.9"
	VIRTUAL_ENV=.venv $(BIN)/uv pip install --quiet --require-hashes -r requirements/app.lock
	@touch $@

venv: .venv/.locked ## Make the locked environment

.PHONY: help lock venv
