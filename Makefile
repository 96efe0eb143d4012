# Every target sets up what it needs: `make demo` and `make test` work on a fresh clone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
TENSORFLOW := .venv-tensorflow
MERMAID := 11.17.2
# What has no target of its own.
IN_SUITE := not browser and not container and not large and not long and not models and not providers and not tensorflow
# Nothing is written beside the models of tests: one of two that have the same size and second would be taken for the other.
export PYTHONDONTWRITEBYTECODE := 1
# So what thousands of processes import is compiled before.
COMPILE = $(BIN)/python -m compileall -q onnx_gate tests sweeps fuzz faults benchmarks

.DEFAULT_GOAL := help
.PHONY: help demo test test-models test-large coverage test-browser gallery test-container test-providers test-tensorflow test-cuda lint lint-github docs sweep torch-sweep onnx-sweep wrong-models strength-report triage-report fuzz fuzz-sample faults bench schema golden release clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: $(INSTALLED) ## run the gate on a passing and on a sabotaged example
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh examples/demo.sh

test: $(INSTALLED) ## run the test suite: all that needs no target of its own
	$(COMPILE)
	@# In the order of tests/conftest.py: xdist's own starts the files with the fewest tests last, and some of them take longest.
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder \
		-m '$(IN_SUITE)'

test-models: $(INSTALLED) ## the large suites of models: forms, facts and kinds of each framework; and what runs long, unless `make coverage` runs it
	$(COMPILE)
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder -m '(models or (long and not covered)) and not browser and not container and not large and not providers and not tensorflow'

test-large: $(INSTALLED) ## judge models above 2 GiB
	$(BIN)/python -m pytest -m large tests/frameworks

coverage: $(INSTALLED) ## measure which lines and branches of the package tests reach, in all of its processes (tests/covered.py)
	$(COMPILE)
	rm -rf build/coverage && mkdir -p build/coverage
	$(BIN)/coverage run -m pytest -q -n auto --dist loadfile --no-loadscope-reorder -m 'covered and $(subst not long and ,,$(IN_SUITE))'
	@# A process that was killed while it wrote leaves a file that is not whole: combine warns, and goes on.
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

$(VENV)/.browser: $(INSTALLED)
	sh tests/browser/prepare.sh
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,browser]'
	@touch $@

# GitHub draws charts with it. Nothing of it is part of the package.
build/mermaid/.installed: | $(VENV)/.browser
	mkdir -p build/mermaid
	npm install --silent --no-save --ignore-scripts --prefix build/mermaid mermaid@$(MERMAID)
	@touch $@

test-browser: $(VENV)/.browser build/mermaid/.installed ## open page, summary and comment in headless Chromium: filters, links, widths, accessibility, hostile text
	$(BIN)/python -m pytest -m browser tests/browser

gallery: $(VENV)/.browser build/mermaid/.installed ## pictures of page, summary and comment at two widths, light and dark, in build/gallery; those of the docs as well
	$(BIN)/python -m tests.browser.gallery

test-container: $(INSTALLED) ## build the image with buildah and run it as the Actions runner would
	sh tests/container/prepare.sh
	$(BIN)/python -m pytest -m container tests/container

test-providers: $(INSTALLED) ## run WebGPU, OpenVINO and the failures of CUDA, each with its own build of onnxruntime
	PYTHON="$(CURDIR)/$(BIN)/python" sh tests/providers/real/prepare.sh
	$(BIN)/python -m pytest -m providers tests/providers/real

$(TENSORFLOW)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(TENSORFLOW)
	$(TENSORFLOW)/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[cpu,tensorflow,variants]' pytest
	@touch $@

test-tensorflow: $(TENSORFLOW)/.installed ## TensorFlow, and Keras on its backend, in an environment of 2 GB without PyTorch
	$(TENSORFLOW)/bin/python -m pytest -m 'tensorflow or keras' tests/frameworks/test_tensorflow.py tests/frameworks/test_keras.py \
		tests/frameworks/test_tensorflow_domain.py tests/frameworks/test_keras_domain.py \
		tests/frameworks/test_conformance.py tests/e2e/test_examples.py tests/triage/test_sabotaged_tensorflow.py

test-cuda: $(INSTALLED) ## on a machine with an NVIDIA GPU: run on it
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,gpu]'
	$(BIN)/onnx-gate doctor
	$(BIN)/python -m pytest -m cuda tests/providers

lint: lint-github ## ruff, mypy, and the checks of the action, the workflows and the Dockerfile
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/hadolint Dockerfile

lint-github: $(INSTALLED) ## the part of it for what GitHub reads: actions, workflows, dependabot.yml, issue forms
	$(BIN)/check-jsonschema --builtin-schema vendor.github-actions action.yml gpu/action.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml examples/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/bug.yml .github/ISSUE_TEMPLATE/feature.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(BIN)/zizmor --offline --no-progress . examples/workflows/*.yml

$(VENV)/.docs: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,docs]'
	@touch $@

docs: $(VENV)/.docs ## build the site of docs/ into build/site; a dead link or a page that is in no menu is an error
	@# Not --quiet: it drops the warnings that --strict counts. Material announces its successor in every build.
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

sweep: $(INSTALLED) ## every scikit-learn estimator through the gate; writes docs/sklearn-coverage.md
	$(BIN)/python -m sweeps.sklearn_estimators --write

torch-sweep: $(INSTALLED) ## layers and architectures of PyTorch through the gate; writes docs/torch-coverage.md
	$(BIN)/python -m sweeps.torch_modules --write

onnx-sweep: $(INSTALLED) ## the tests that ship with onnx through the gate; writes docs/onnx-coverage.md
	$(BIN)/python -m sweeps.onnx_backend --write

wrong-models: $(INSTALLED) ## models that are wrong where blind inputs don't reach, and healthy ones; writes docs/wrong-models.md
	$(BIN)/python -m sweeps.wrong_models --write

strength-report: $(INSTALLED) ## how strong real test data is, and what survivors say of wrong models; writes docs/strength-models.md
	$(BIN)/python -m sweeps.strength --write

triage-report: $(INSTALLED) $(TENSORFLOW)/.installed ## does triage name the faults of sabotaged models; writes docs/triage-models.md (about 25 minutes)
	$(BIN)/python -m sweeps.sabotage --write
	$(TENSORFLOW)/bin/python -m sweeps.sabotage --write

fuzz: $(INSTALLED) ## broken event streams, manifests, results and models by the thousand; keeps what fails in fuzz/failures
	$(BIN)/python -m fuzz

fuzz-sample: $(INSTALLED) ## the first two minutes of it
	$(BIN)/python -m fuzz --seconds 100

faults: $(INSTALLED) ## 500 runs with a fault in each: signals, disks, pipes, API, clock; writes docs/faults.md
	$(BIN)/python -m faults --write

BENCHMARKS := compare_speed gate_vs_scripts cached variants start growth larger_models deep_place

bench: $(INSTALLED) ## the gate beside plain scripts and other tools, as ratios of one run; writes docs/performance.md
	@# A package that pip installs is compiled; one that is edited in place is not.
	$(COMPILE)
	@# All of them, also after one that missed its bar; the page is written, and then the target fails.
	@failed=; for name in $(BENCHMARKS); do $(BIN)/python benchmarks/$$name.py || failed="$$failed $$name"; done; \
	$(BIN)/python benchmarks/page.py && test -z "$$failed" || { echo "missed:$$failed"; exit 1; }

schema: $(INSTALLED) ## write the JSON Schemas of the manifest and of results.json anew
	$(BIN)/python -m onnx_gate.manifest.json_schema > onnx-gate.schema.json
	$(BIN)/python -m onnx_gate.publish.results_schema > onnx-gate-results.schema.json

golden: $(INSTALLED) ## write the golden reports anew; read the diff before you commit it
	$(BIN)/python -m tests.golden.rewrite

release: ## make the commit and the tag of a release, which the release workflow then publishes: VERSION=1.2.3
	git diff --quiet HEAD
	$(PYTHON) tools/release.py '$(VERSION)'
	git checkout --quiet --detach
	git commit --quiet --all --message 'Release v$(VERSION)'
	git tag 'v$(VERSION)'
	@echo "Now push it: git push origin v$(VERSION)"

clean: ## remove what make made
	rm -rf $(VENV) $(TENSORFLOW) .venv-providers onnx-gate-report build dist
