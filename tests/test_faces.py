"""One JSONL through the command, TRL's face and verl's face gives the same rewards."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import subprocess
import sys

import pytest

from tircli import faces
from tircli.cli import app
from tircli.papers.otc import LeastCalls
from tircli.records import InputError
from tircli.rewards import Settings


def record(question: str, sample: int, calls: int, prediction: str | None, stop="answer") -> dict:
    """A trajectory of 3 samples with `calls` executed calls and 10 + `calls` model tokens."""
    tool = {"name": "python", "input": "1", "output": "1", "status": "ok"}
    segments = [
        {"role": "prompt", "text": "?", "token_ids": [1]},
        {"role": "model", "text": "<think>x</think>", "token_ids": [2] * (10 + calls)},
        *({"role": "tool", "text": "1", "token_ids": [3], "tool": tool} for _ in range(calls)),
    ]
    return {
        "id": f"{question}#{sample}",
        "group": question,
        "sample": sample,
        "k": 3,
        "question": "?",
        "answer": "4",
        "stop": stop,
        "prediction": prediction,
        "made": {"protocol": "et"},
        "segments": segments,
    }


RECORDS = [
    *(record("a", i, calls, "4") for i, calls in enumerate((3, 1, 2))),
    record("b", 0, 2, "4"),
    record("b", 1, 0, "5"),
    record("b", 2, 1, None, stop="error"),
    *(record("c", i, i, "5") for i in range(3)),
]
CASES = [
    ("correct", {"reward_wrong": -1.0}),
    ("otc-ppo", {"otc_c": 4.0}),
    ("otc-grpo", {}),
    ("otc-grpo", {"otc_n": "local", "reward_format": 0.2, "otc_scale_format": True}),
    ("et", {}),
    ("et", {"et_gain": 2.0, "et_malformed": "replace", "round": 2, "rounds": 3}),
]


def commanded(tmp_path, name, settings) -> list[float | None]:
    """The rewards of RECORDS as `tir judge` writes them."""
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("".join(json.dumps(r) + "\n" for r in RECORDS))
    options = [
        part
        for key, value in settings.items()
        for part in ("--" + key.replace("_", "-"), str(value))
        if part != "True"
    ]
    command = ["judge", str(source), "-o", str(target), "-q", "--reward", name, *options]
    # One of the records has an error: code 3.
    assert app(command, standalone_mode=False) == 3
    return [json.loads(line).get("reward") for line in target.read_text().splitlines()]


@pytest.mark.parametrize(("name", "settings"), CASES)
def test_all_faces_give_the_rewards_of_the_command(tmp_path, name, settings):
    expected = commanded(tmp_path, name, settings)
    assert [r is None for r in expected] == [False] * 5 + [True] + [False] * 3
    texts = ["text that says \\boxed{4}"] * len(RECORDS)
    trl = faces.trl_reward(name, Settings(**settings))
    assert trl(texts, texts, RECORDS, trainer_state=None, qid=list("aaabbbccc")) == expected
    infos = [{"tir": r, "index": 7} for r in RECORDS]
    table = LeastCalls()
    assert faces.verl_group_scores(infos, name, Settings(**settings), table) == expected
    if name in faces.ALONE:
        alone = [
            faces.verl_compute_score("data", "\\boxed{4}", "4", info, reward=name, **settings)[
                "score"
            ]
            for info in infos
        ]
        assert [None if math.isnan(s) else s for s in alone] == expected


def test_the_parts_of_a_step_may_come_in_any_order():
    texts = [""] * len(RECORDS)
    straight = faces.trl_reward("et")(texts, texts, RECORDS)
    backwards = faces.trl_reward("et")(texts, texts, RECORDS[::-1])
    assert backwards[::-1] == straight


@pytest.mark.parametrize("name", ["et", "otc-grpo", "correct"])
def test_part_of_a_group_is_refused(name):
    with pytest.raises(InputError, match='group "a": 2 of its 3 samples are here'):
        faces.trl_reward(name)([""] * 2, [""] * 2, RECORDS[:2])


def test_what_is_seen_alone_are_facts_and_correctness():
    found = faces.verl_compute_score("data", "", "4", {"tir": RECORDS[0]}, reward="otc-grpo")
    assert found == {"score": 1, "correct": 1, "calls": 3, "length": 13, "well_formed": 0}


def test_a_failed_sample_alone_has_no_score():
    found = faces.verl_compute_score("data", "", "4", {"tir": RECORDS[5]})
    assert math.isnan(found["score"]) and math.isnan(found["correct"])


def test_the_table_goes_on_from_step_to_step():
    table = LeastCalls()
    reward = faces.trl_reward("otc-grpo", table=table)
    reward([""] * 3, [""] * 3, RECORDS[:3])
    assert table.state_dict() == {"a": 1}
    later = [record("a", i, 2, "4") for i in range(3)]
    # n = 1, m = 2: sin(2 pi / 3)
    assert reward([""] * 3, [""] * 3, later) == [pytest.approx(0.8660, abs=5e-5)] * 3


def test_a_verdict_that_is_there_is_taken():
    judged = [r | {"correct": 0.0, "judge": {"name": "llm", "why": ""}} for r in RECORDS[:3]]
    assert faces.trl_reward("correct")([""] * 3, [""] * 3, judged) == [0.0] * 3


def needs(*packages: str) -> None:
    """Skip without `packages`; they are loaded in a process of their own alone."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"needs {package}")


PROCESS = """
import json, sys, torch.distributed
from accelerate import PartialState
from tircli.faces import trl_reward
state = PartialState(cpu=True)
records = [json.loads(line) for line in open(sys.argv[1])][state.process_index :: 2]
texts = [""] * len(records)
found = trl_reward("et")(texts, texts, records)
with open(f"{sys.argv[1]}.{state.process_index}", "w") as out:
    json.dump(found, out)
torch.distributed.destroy_process_group()
"""


@pytest.mark.slow
def test_two_processes_with_half_a_group_each_give_the_whole_groups_rewards(tmp_path):
    needs("accelerate", "torch")
    source, script = tmp_path / "in.jsonl", tmp_path / "process.py"
    source.write_text("".join(json.dumps(r) + "\n" for r in RECORDS))
    script.write_text(PROCESS)
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2"]
    command += ["--standalone", str(script), str(source)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    halves = [json.loads((tmp_path / f"in.jsonl.{i}").read_text()) for i in range(2)]
    expected = faces.trl_reward("et")([""] * 9, [""] * 9, RECORDS)
    assert [halves[0], halves[1]] == [expected[::2], expected[1::2]]


TRAINING = """
import json, sys
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer
from tircli.faces import trl_reward

words = Tokenizer(models.WordLevel({"<pad>": 0, "<eos>": 1, "a": 2, "b": 3}, unk_token="a"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
special = {"pad_token": "<pad>", "eos_token": "<eos>", "unk_token": "a"}
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, **special)
size = {"vocab_size": 8, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
config = LlamaConfig(**size, num_attention_heads=2, num_key_value_heads=2)
records = {question: json.loads(line) for question, line in zip("ab", open(sys.argv[1]))}

def rollout(prompts, trainer):
    n = len(prompts)
    left = {question: iter(group) for question, group in records.items()}
    sampled = {"prompt_ids": [[2, 3]] * n, "completion_ids": [[2, 3, 1]] * n}
    trajectories = [next(left[prompt]) for prompt in prompts]
    return sampled | {"logprobs": [[-1.0] * 3] * n, "trajectory": trajectories}

settings = GRPOConfig(
    sys.argv[2], max_steps=1, per_device_train_batch_size=6, num_generations=3, use_cpu=True,
    bf16=False, report_to=[], logging_steps=1, save_strategy="no",
)
trainer = GRPOTrainer(
    model=LlamaForCausalLM(config), reward_funcs=[trl_reward("otc-grpo")], args=settings,
    train_dataset=Dataset.from_list([{"prompt": "a"}, {"prompt": "b"}]),
    processing_class=tokenizer, rollout_func=rollout,
)
trainer.train()
print("mean", trainer.state.log_history[0]["rewards/otc-grpo/mean"])
"""


@pytest.mark.slow
def test_the_real_trainer_of_trl_takes_the_rewards(tmp_path):
    needs("trl", "datasets")
    groups, script = tmp_path / "groups.jsonl", tmp_path / "training.py"
    groups.write_text(json.dumps(RECORDS[:3]) + "\n" + json.dumps(RECORDS[6:]) + "\n")
    script.write_text(TRAINING)
    environment = os.environ | {"TRL_EXPERIMENTAL_SILENCE": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(script), str(groups), str(tmp_path / "out")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    # a, with n = 1: sin(3 pi / 4), 1, sin(2 pi / 3); c is wrong throughout.
    mean = float(done.stdout.split("mean ")[-1])
    assert mean == pytest.approx((0.70711 + 1 + 0.86603) / 6, abs=1e-4)
