PYTHON ?= python3
BIN := .venv/bin

.PHONY: install demo test check fast docs benchmarks clean

install: .venv/installed
	@echo "Installed in .venv. Next:"
	@echo "  .venv/bin/l2r demo              # about three minutes: the whole way on generated pages"
	@echo "  source .venv/bin/activate       # then l2r --help; your own corpus: README.md"

demo: .venv/installed
	$(BIN)/l2r demo

# One thread each: the tests' tensors are small, and two threads that meet another process spin.
WORKERS ?= 2
PYTEST := $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder
test fast: export OMP_NUM_THREADS = 1
# Commands that run in a process of their own would compile every library again.
unexport PYTHONDONTWRITEBYTECODE

test: check
	$(PYTEST)

# Only the tests that take seconds.
fast: .venv/installed
	$(PYTEST) -m "not slow"

check: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet "uv>=0.5"
	$(BIN)/uv pip install --quiet --python $(BIN)/python --editable ".[all,dev]"
	touch $@

# The documentation as a site that needs no network: site/index.html. Warnings are errors.
docs: .venv/installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

benchmarks: .venv/installed
	for script in benchmarks/*.py; do PYTHONPATH=. $(BIN)/python $$script || exit 1; done

clean:
	rm -rf .venv demo-run site
