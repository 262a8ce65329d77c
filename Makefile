PYTHON ?= python3
BIN := .venv/bin
# Most modules are never imported: Python compiles the others when they are.
PIP := $(BIN)/pip install --quiet --no-compile
READY := .venv/.ready

.PHONY: demo test pytest nightly lint format docs package

# The pip that comes with Python takes a minute longer to resolve the packages.
.venv:
	$(PYTHON) -m venv --upgrade-deps .venv

$(READY): pyproject.toml | .venv
	$(PIP) --editable '.[dev]'
	touch $@

# Without the packages that only tests need.
demo: | .venv
	$(PIP) --editable '.[plot]'
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

# The wheel is installed in a new environment, which sees the packages of .venv but not the clone.
package: $(READY)
	rm -rf dist
	$(BIN)/python -m hatchling build
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents dist
	$(PYTHON) -m venv --without-pip dist/venv
	$(BIN)/pip --python dist/venv install --quiet --no-deps --no-compile dist/*.whl
	PYTHONPATH=$$(echo $(CURDIR)/.venv/lib/python3*/site-packages) dist/venv/bin/foveate summarize --no-cache examples/README.md
