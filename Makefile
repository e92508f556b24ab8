# Each target sets up all that it needs: a virtual environment with the package, installed anew when pyproject.toml
# changes. Needed beforehand are make and Python 3.10 or later; without a Java 17 or later the extra `java` brings one.

PYTHON ?= python3
VENV ?= .venv
# More arguments for the command of a target: make test ARGS="tests/model -x"
ARGS ?=
# Processes that share the tests; each starts services of its own, a Spark session of half a gigabyte among them.
WORKERS ?= 2

python := $(VENV)/bin/python

# The extras whose dependencies requirements.lock pins, beside those of the group `lint`, in which `test` is.
locked := avro,aws,daemon,delta,demo,java,openlineage,opentelemetry,pandas,polars,postgres,report,serve,spark,sql

.PHONY: help demo demo-s3 demo-engines docs hms test safety lint format audit lock bench clean
.DEFAULT_GOAL := help

help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' Makefile

demo: $(VENV)/.with-demo,java,serve ## Analyze, prune and query real data with Spark, from nothing
	@"$(python)" -m demos $(ARGS)

demo-s3: $(VENV)/.with-demo-s3 ## Count requests with and without the metastore, on an S3 server of its own
	@"$(python)" -m demos.s3 $(ARGS)

demo-engines: $(VENV)/.with-demo,java,serve ## Publish the flights, and ask DuckDB, PyIceberg and Spark by name: files opened
	@"$(python)" -m demos.engines $(ARGS)

docs: $(VENV)/.group-docs ## Build the documentation's site into site/; a broken link is an error
	@NO_MKDOCS_2_WARNING=1 "$(python)" -m mkdocs build --quiet $(ARGS)

hms: $(VENV)/.group-test ## Start a Hive Metastore on loopback and print its URI, until Ctrl-C
	@PYTHONPATH=tests "$(python)" -m services.hms $(ARGS)

test: $(VENV)/.group-test ## Run all tests
	@"$(python)" -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

safety: $(VENV)/.group-test ## Break stores, inputs and processes for long, and see that nothing is lost
	@SAFETY=long HYPOTHESIS_PROFILE=nightly "$(python)" -m pytest tests/safety --services exhaustive -o faulthandler_timeout=0 $(ARGS)

lint: $(VENV)/.group-lint ## Check style, format, types and plain English
	@"$(python)" .ci/wording.py
	@"$(python)" -m ruff check .
	@"$(python)" -m ruff format --check .
	@"$(python)" -m mypy

format: $(VENV)/.group-lint ## Format the code and mend what can be mended
	@"$(python)" -m ruff check --fix .
	@"$(python)" -m ruff format .

audit: $(VENV)/.group-audit ## Look up known vulnerabilities of what requirements.lock pins
	@"$(python)" -m pip_audit --requirement requirements.lock --require-hashes --disable-pip --strict $(ARGS) || { \
		echo "See above: vulnerabilities were found, or the service that knows them (pypi.org, or osv.dev with" >&2; \
		echo "ARGS='-s osv') was not reached, and then nothing is known." >&2; exit 1; }

lock: $(VENV)/.pip ## Renew requirements.lock: versions that fit, with hashes
	@"$(python)" -m pip install --quiet --dry-run --ignore-installed --report - ".[$(locked)]" --group lint $(ARGS) \
		>"$(VENV)/report.json"
	@"$(python)" .ci/pins.py <"$(VENV)/report.json" >requirements.lock

bench: $(VENV)/.group-test ## Run the benchmarks, each beside its peers
	@"$(python)" -m benchmarks $(ARGS)

clean: ## Remove the environment and everything that was generated
	rm -rf "$(VENV)" build dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis spark-warehouse metastore_db derby.log
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stem names the extras to install.
$(VENV)/.with-%: pyproject.toml | $(VENV)/bin/python
	@echo "Installing lake-metastore[$*] into $(VENV) ..."
	@"$(python)" -m pip install --quiet --disable-pip-version-check --use-pep517 --editable ".[$*]"
	@touch "$@"

# The stem names the dependency group to install.
$(VENV)/.group-%: pyproject.toml | $(VENV)/.pip
	@echo "Installing what the group $* needs into $(VENV) ..."
	@"$(python)" -m pip install --quiet --disable-pip-version-check --editable . --group "$*"
	@touch "$@"

# The pip that comes with Python may be older than dependency groups.
$(VENV)/.pip: | $(VENV)/bin/python
	@"$(python)" -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	@touch "$@"

$(VENV)/bin/python:
	@command -v "$(PYTHON)" >/dev/null || { \
		echo "No $(PYTHON) on the PATH; install Python 3.10 or later, or name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
		echo "$$("$(PYTHON)" --version 2>&1) is too old: 3.10 or later is needed; name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -m venv "$(VENV)" || { rm -rf "$(VENV)"; \
		echo "Cannot create $(VENV); on Debian and Ubuntu the package python3-venv is needed" >&2; exit 1; }
