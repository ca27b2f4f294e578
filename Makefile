PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test quick room mutants lint docs claims seeds teeth bench browser clean

demo: .venv/.core  ## the main job: what will networks have learnt from a table, and is it true?
	$(BIN)/finitewidth predict diabetes --hidden 128x3 --activation tanh --verify 64 --out demo --force

test: .venv/.dev browser lint  ## everything that must hold
	$(BIN)/python -m pytest -n 2 --dist loadfile
	$(MAKE) docs

quick: .venv/.dev  ## style, contracts, types of what changed and the quick tests of every room: two minutes
	$(BIN)/ruff check . & $(BIN)/ruff format --check . & $(BIN)/lint-imports & wait
	files=$$(git diff --name-only --diff-filter=d HEAD -- src | grep '\.py$$'); \
	  if [ -n "$$files" ]; then $(BIN)/basedpyright $$files; fi
	$(BIN)/python -m pytest -q -n 2 --dist loadfile -m "not slow"

room: .venv/.dev  ## all tests of one room: make room ROOM=prediction, make room ROOM=course/mean_field
	$(BIN)/python -m pytest -q -n 2 --dist loadfile tests/$(ROOM)

costs: .venv/.dev browser  ## the whole suite, and which tests are slow from now on
	$(BIN)/python -m pytest -q -n 2 --dist loadfile --costs=build/costs.json
	$(BIN)/python tests/costs.py build/costs.json

mutants: .venv/.dev  ## change one formula at a time: a test must notice
	$(BIN)/python tests/mutants/run.py --jobs 2

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports

docs: .venv/.dev  ## the book, as a static site in site/
	$(BIN)/python docs/ledger.py --scale quick --reuse
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

claims: .venv/.core  ## every claim at full scale: the figures of the book
	$(BIN)/finitewidth lab run --all --scale full --teeth --out build/lab-full
	$(BIN)/python docs/ledger.py --scale full --records build/lab-full

seeds: .venv/.core  ## every claim, or those of CHAPTER, at three other seeds
	$(BIN)/python tests/course/_lab/other_seeds.py $(if $(CHAPTER),"$(CHAPTER)")

teeth: .venv/.core  ## every claim, or those of CHAPTER: which errors of the theory does it notice? SCALE=full for the larger runs
	$(BIN)/finitewidth lab run $(if $(CHAPTER),"$(CHAPTER)",--all) --teeth --scale $(or $(SCALE),quick) --out build/teeth

bench: .venv/.dev
	$(BIN)/python benchmarks/kernels.py

.venv/.core: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) --editable .
	touch $@

.venv/.dev: .venv/.core
	$(PIP) torch==2.13.0
	$(PIP) --editable '.[dev,docs]'
	touch $@

browser:  ## Chromium, in which the tests look at the report
	@for name in chromium chromium-browser google-chrome google-chrome-stable; do \
	  command -v $$name >/dev/null && exit 0; \
	done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null; \
	else \
	  echo "The tests of the report need Chromium and will fail; on Debian: sudo apt-get install chromium" >&2; \
	fi

clean:
	rm -rf .venv build site demo
