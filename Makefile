PYTHON ?= python3
BIN := .venv/bin
# Most modules are never imported: Python compiles the others when they are.
PIP := $(BIN)/pip install --quiet --no-compile
READY := .venv/.ready

.PHONY: demo test pytest nightly lint format docs

# The pip that comes with Python takes a minute longer to resolve the packages.
$(READY): pyproject.toml
	$(PYTHON) -m venv --upgrade-deps .venv
	$(PIP) --editable '.[dev]'
	touch $@

demo: $(READY)
	$(BIN)/foveate summarize examples/pep-0703.pdf
	$(BIN)/foveate ask "what happens to extensions that are not thread safe?" examples/pep-0703.pdf
	$(BIN)/foveate plot pdf examples/pep-0703.pdf --output summary.pdf
	$(BIN)/foveate plot tree examples/pep-0703.pdf --output pattern.png

test: lint pytest

pytest: $(READY)
	$(BIN)/pytest --quiet --numprocesses auto --dist worksteal

nightly:
	PYTHON=$(PYTHON) .ci/nightly

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --num-workers 2

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
