# make demo | test | test-full | bench | ulp | sanitize | lint | build | clean      (DEVICE=cpu:0 chooses the device of the demo)
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
DEVICE ?=
TEST_ARGS ?=

# What the package is built from: a change of any of these rebuilds, incrementally.
SOURCES := pyproject.toml CMakeLists.txt $(shell find hal devices oneflow_mini conformance -type f \
             \( -name '*.cpp' -o -name '*.hpp' -o -name '*.h' -o -name '*.py' -o -name '*.pyi' -o -name '*.cmake' -o -name 'CMakeLists.txt' \) \
             -not -path '*/__pycache__/*' 2>/dev/null)

.PHONY: demo test test-full bench ulp sanitize lint format build clean

$(VENV)/.tools: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet 'scikit-build-core>=0.10' 'pybind11>=2.13' cmake ninja
	@touch $@

$(VENV)/.built: $(VENV)/.tools $(SOURCES)
	$(BIN)/python -m pip install --quiet --no-build-isolation -C build-dir=build '.[demo,test,opencl]'
	@touch $@

build: $(VENV)/.built

demo: $(VENV)/.built
	$(BIN)/python examples/digits.py $(if $(DEVICE),--device $(DEVICE))

test: $(VENV)/.built
	$(BIN)/python -m pytest -m "not slow" $(TEST_ARGS) tests

test-full: $(VENV)/.built
	$(BIN)/python -m pytest $(TEST_ARGS) tests

# The figures of docs/benchmarks.md; PyTorch is installed into an environment of its own.
bench: $(VENV)/.built
	$(BIN)/python benchmarks/run.py

# The shared functions over all 2^32 inputs: those whose source has changed since (docs/numerics.md, section 16). ULP_ARGS=--all: every one.
ulp: $(VENV)/.built
	$(BIN)/python tests/numerics/ulp.py $(ULP_ARGS)

# AddressSanitizer with UBSan, then ThreadSanitizer, each in a build folder of its own.
sanitize: $(VENV)/.built
	$(BIN)/python tests/sanitize/run.py address
	$(BIN)/python tests/sanitize/run.py thread

lint: $(VENV)/.tools
	$(BIN)/python -m pip install --quiet ruff==0.17.6 mypy==2.4.1 clang-format==23.1.5 numpy typer rich safetensors
	$(BIN)/ruff check hal devices oneflow_mini conformance tests examples benchmarks
	$(BIN)/mypy hal oneflow_mini conformance
	git ls-files '*.cpp' '*.hpp' '*.h' '*.c' | xargs $(BIN)/clang-format --dry-run --Werror

format:
	git ls-files '*.cpp' '*.hpp' '*.h' '*.c' | xargs $(BIN)/clang-format -i
	$(BIN)/ruff check --fix hal devices oneflow_mini conformance tests examples benchmarks

clean:
	rm -rf build $(VENV) dist
