# Every target sets up what it needs: `make demo` and `make test` work on a fresh clone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help demo test test-container lint sweep torch-sweep onnx-sweep bench schema golden clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: $(INSTALLED) ## run the gate on a passing and on a sabotaged example
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh examples/demo.sh

test: $(INSTALLED) ## run the whole test suite
	$(BIN)/python -m pytest -n auto --dist loadfile -m 'not container'

test-container: $(INSTALLED) ## build the image with buildah and run it as the Actions runner would
	sh tests/container/prepare.sh
	$(BIN)/python -m pytest -m container tests/container

lint: $(INSTALLED) ## ruff, mypy, and the checks of the action, the workflows and the Dockerfile
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/check-jsonschema --builtin-schema vendor.github-actions action.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/hadolint Dockerfile
	$(BIN)/zizmor --offline --no-progress .

sweep: $(INSTALLED) ## every scikit-learn estimator through the gate; writes docs/sklearn-coverage.md
	$(BIN)/python -m sweeps.sklearn_estimators --write

torch-sweep: $(INSTALLED) ## layers and architectures of PyTorch through the gate; writes docs/torch-coverage.md
	$(BIN)/python -m sweeps.torch_modules --write

onnx-sweep: $(INSTALLED) ## the tests that ship with onnx through the gate; writes docs/onnx-coverage.md
	$(BIN)/python -m sweeps.onnx_backend --write

bench: $(INSTALLED) ## the gate beside plain scripts, as ratios of one run
	$(BIN)/python benchmarks/compare_speed.py
	$(BIN)/python benchmarks/gate_vs_scripts.py

schema: $(INSTALLED) ## write onnx-gate.schema.json anew
	$(BIN)/python -m onnx_gate.manifest.json_schema > onnx-gate.schema.json

golden: $(INSTALLED) ## write the golden reports anew; read the diff before you commit it
	$(BIN)/python -m tests.golden.rewrite

clean: ## remove what make made
	rm -rf $(VENV) onnx-gate-report build dist
