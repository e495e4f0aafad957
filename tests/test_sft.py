"""`tir sft` on a tiny random llama: the loss, its gradient, packing, resume, what is written."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tircli import jsonl
from tircli.records import EngineError, InputError, Segment, ToolUse, Trajectory
from tircli.train.batch import Example, collate
from tircli.train.settings import Settings, choose

torch = pytest.importorskip("torch", reason="training needs tircli[local]")
transformers = pytest.importorskip("transformers", reason="training needs tircli[local]")
pytest.importorskip("accelerate", reason="training needs tircli[local]")
losses = pytest.importorskip("tircli.train.losses")
policy = pytest.importorskip("tircli.train.policy")
sft = pytest.importorskip("tircli.train.sft")
stage = pytest.importorskip("tircli.stages.sft")

SIZE = 60
"""Ids of the tiny model."""


def example(i: int) -> Example:
    """Lengths 5, 8, 11, ...; the middle third is an observation."""
    length = 5 + 3 * (i % 4)
    third = length // 3
    ids = [(7 * i + 3 * j) % SIZE for j in range(length)]
    trained = [third <= j < length - third or j == length - 1 for j in range(length)]
    return Example(f"e{i}", ids, [yes and j > 0 for j, yes in enumerate(trained)])


EXAMPLES = [example(i) for i in range(16)]


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    """A folder with a random llama of two layers, dropout in it, and a byte tokenizer."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("model")
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    raw = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    raw.add_special_tokens([AddedToken("<eos>", special=True)])
    transformers.PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="<eos>").save_pretrained(
        folder
    )
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=257,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        initializer_range=0.3,
        eos_token_id=256,
        bos_token_id=None,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def net(model):
    return policy.load(model)


def run(model: str, out: Path, examples=EXAMPLES, **changed):
    """The lines of a run and its summary."""
    lines: list[dict] = []
    held_out = changed.pop("held_out", ())
    how = {"lr": 1e-2, "batch": 8, "micro_batch": 4, "epochs": 3.0, "warmup": 0.0} | changed
    summary = sft.train(model, out, examples, Settings(**how), held_out=held_out, emit=lines.append)
    return lines, summary


def weights(folder: Path) -> dict:
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


class Fixed(torch.nn.Module):
    """A network that says the same logits (B, T, V), whatever it reads."""

    def __init__(self, logits) -> None:
        super().__init__()
        self.logits = torch.nn.Parameter(logits)

    def forward(self, input_ids, position_ids, use_cache, logits_to_keep=None):
        keep = slice(None) if logits_to_keep is None else logits_to_keep
        return SimpleNamespace(logits=self.logits[:, keep])


@pytest.mark.parametrize("chosen", [False, True])
def test_the_loss_of_a_token_is_what_the_hand_gives(chosen):
    # Vocabulary of 4. Position 0 says ln 3 for id 1: p = 3/(3+1+1+1) = 1/2; the others are even.
    logits = torch.zeros(2, 3, 4)
    logits[:, 0, 1] = math.log(3)
    batch = collate([Example("a", [0, 1, 2], [False, True, True]),
                     Example("b", [0, 3], [False, True])])  # fmt: skip
    found = losses.token_losses(Fixed(logits), batch, chosen).tolist()
    # Row a: -ln 1/2, -ln 1/4; row b: id 3 at position 0, -ln 1/6.
    assert found == pytest.approx([math.log(2), math.log(4), math.log(6)])


@pytest.mark.parametrize("chosen", [False, True])
@pytest.mark.parametrize("packing", [False, True])
def test_what_a_tool_said_has_a_gradient_of_exactly_zero(chosen, packing):
    batch = collate(EXAMPLES[:4], packing)
    rows, width = batch["labels"].shape
    net = Fixed(torch.randn(rows, width, SIZE, generator=torch.Generator().manual_seed(0)))
    losses.token_losses(net, batch, chosen).sum().backward()
    trained = torch.nn.functional.pad(batch["labels"][:, 1:] != -100, (0, 1))
    touched = net.logits.grad.abs().sum(-1) > 0
    assert torch.equal(touched, trained)


def test_the_first_loss_is_the_mean_over_all_trained_tokens_of_the_update(model, net, tmp_path):
    lines, _ = run(model, tmp_path / "run", EXAMPLES[:8], epochs=1.0)
    total = count = 0.0
    for one in EXAMPLES[:8]:
        with torch.no_grad():
            logits = net(torch.tensor([one.ids])).logits[0].double()
        for t in range(1, len(one.ids)):
            if one.trained[t]:
                total -= torch.log_softmax(logits[t - 1], -1)[one.ids[t]].item()
                count += 1
    assert lines[0]["loss"] == pytest.approx(total / count, rel=1e-6)
    assert lines[0]["tokens"] == count == sum(e.tokens for e in EXAMPLES[:8])


def gradient(model: str, out: Path, **changed):
    """The gradient of the first update, from AdamW's first moment: (1 - 0.9) times it."""
    run(model, out, EXAMPLES[:8], epochs=1.0, clip=0.0, save_every=1, **changed)
    state = torch.load(out / "checkpoint-1" / "optimizer.pt")["state"]
    return torch.cat([state[i]["exp_avg"].flatten() for i in sorted(state)]) / 0.1


def test_however_an_update_is_cut_its_gradient_is_the_same(model, tmp_path):
    whole = gradient(model, tmp_path / "8", micro_batch=8)
    assert whole.norm() > 0.1
    for micro in (4, 2, 1):
        cut = gradient(model, tmp_path / str(micro), micro_batch=micro)
        assert torch.allclose(cut, whole, rtol=0, atol=1e-6)
        packed = gradient(model, tmp_path / f"p{micro}", micro_batch=micro, packing=True)
        assert torch.allclose(packed, whole, rtol=0, atol=1e-6)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_packed_samples_do_not_see_each_other(model, attention):
    net = policy.load(model, attention=attention)
    batch = collate(EXAMPLES[:3], packing=True)
    with torch.no_grad():
        packed = net(batch["input_ids"], position_ids=batch["position_ids"], use_cache=False).logits
        alone = [net(torch.tensor([one.ids])).logits[0] for one in EXAMPLES[:3]]
    assert torch.allclose(packed[0], torch.cat(alone), atol=1e-5)
    assert policy.packs(net)


class Leaky(torch.nn.Module):
    """Reads positions, and yet sums all that stands before."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(SIZE, 4)
        self.device = torch.device("cpu")

    def get_input_embeddings(self):
        return self.table

    def forward(self, input_ids, position_ids, use_cache):
        return SimpleNamespace(logits=self.table(input_ids).cumsum(1))


def test_a_model_that_looks_across_samples_is_found_out():
    assert not policy.packs(Leaky())


def test_six_updates_are_three_and_three_resumed_bit_for_bit(model, tmp_path):
    # Dropout makes the state of the random numbers part of the claim.
    config = json.loads(Path(model, "config.json").read_text())
    wet = tmp_path / "wet"
    wet.mkdir()
    for path in Path(model).iterdir():
        (wet / path.name).write_bytes(path.read_bytes())
    (wet / "config.json").write_text(json.dumps(config | {"attention_dropout": 0.2}))
    how = {"epochs": 3.0, "save_every": 3, "eval_every": 2, "held_out": EXAMPLES[:3]}
    whole, summary = run(str(wet), tmp_path / "whole", **how)
    assert [line["step"] for line in whole if "loss" in line] == [1, 2, 3, 4, 5, 6]

    lines: list[dict] = []

    def killed(line: dict) -> None:
        if line["step"] == 5:
            raise KeyboardInterrupt
        lines.append(line)

    settings = Settings(
        lr=1e-2, batch=8, epochs=3.0, warmup=0.0, save_every=3, eval_every=2
    )  # as in `run`
    with pytest.raises(KeyboardInterrupt):
        sft.train(
            str(wet), tmp_path / "cut", EXAMPLES, settings, held_out=EXAMPLES[:3], emit=killed
        )
    assert [p.name for p in (tmp_path / "cut").glob("checkpoint-*")] == ["checkpoint-3"]
    rest: list[dict] = []
    resumed = sft.train(
        *(str(wet), tmp_path / "cut", EXAMPLES, settings),
        held_out=EXAMPLES[:3],
        resume=True,
        emit=rest.append,
    )
    assert [line for line in lines if line["step"] <= 3] + rest == whole
    for name in ("last", "best"):
        one, two = (weights(tmp_path / run / name) for run in ("whole", "cut"))
        assert all(torch.equal(one[key], two[key]) for key in one)
    assert resumed["eval_loss"] == summary["eval_loss"]


def test_a_run_is_resumed_with_its_own_settings_and_records_alone(model, tmp_path):
    run(model, tmp_path / "run", EXAMPLES[:8], epochs=1.0)
    for changed, said in (({"lr": 2e-2}, "lr"), ({"examples": EXAMPLES[:7]}, "data")):
        how = {"examples": EXAMPLES[:8]} | changed
        settings = Settings(
            **{"lr": 1e-2, "batch": 8, "epochs": 1.0, "warmup": 0.0}
            | {k: v for k, v in changed.items() if k == "lr"}
        )
        with pytest.raises(InputError, match=f"--resume: .*{said}"):
            sft.train(model, tmp_path / "run", how["examples"], settings, resume=True)


def test_the_loss_falls_and_the_best_evaluation_is_kept(model, tmp_path):
    lines, summary = run(model, tmp_path / "run", epochs=10.0, eval_every=4, held_out=EXAMPLES[:4])
    train = [line["loss"] for line in lines if "loss" in line]
    held = [line["eval_loss"] for line in lines if "eval_loss" in line]
    assert train[-1] < train[0] / 2
    assert len(held) == 5  # 20 updates
    note = json.loads((tmp_path / "run/best/sft.json").read_text())
    assert note["eval_loss"] == min(held) == summary["eval_loss"]


def test_what_is_written_is_whole_and_loads(model, tmp_path):
    out = tmp_path / "run"
    run(model, out, epochs=2.0, save_every=1)
    assert sorted(p.name for p in out.iterdir()) == [
        ".saving", "checkpoint-4", "last", "sft.json"
    ]  # fmt: skip
    assert list((out / ".saving").iterdir()) == []
    again = transformers.AutoModelForCausalLM.from_pretrained(out / "last")
    assert again.config.use_cache and len(transformers.AutoTokenizer.from_pretrained(out / "last"))
    assert not torch.equal(again.lm_head.weight, policy.load(model).lm_head.weight)


def test_a_run_that_replaces_another_leaves_nothing_of_it(model, tmp_path):
    out = tmp_path / "run"
    run(model, out, epochs=2.0, held_out=EXAMPLES[:2])
    run(model, out, EXAMPLES[:8], epochs=1.0)
    assert sorted(p.name for p in out.iterdir()) == [".saving", "checkpoint-1", "last", "sft.json"]


def test_a_folder_left_aside_by_a_kill_is_put_back(tmp_path):
    (tmp_path / ".best.old").mkdir()
    policy.settled(tmp_path / "best")
    assert (tmp_path / "best").is_dir()


def test_an_adapter_is_merged_and_the_base_was_left_alone(model, tmp_path):
    pytest.importorskip("peft", reason="--lora needs tircli[local]")
    half = tmp_path / "half"
    policy.load(model).to(torch.bfloat16).save_pretrained(half)
    policy.tokenizer(model).save_pretrained(half)
    lines, _ = run(str(half), tmp_path / "run", lora=4, held_out=EXAMPLES[:4])
    trained = [line["loss"] for line in lines if "loss" in line]
    assert trained[-1] < trained[0]
    before, after = weights(half), weights(tmp_path / "run/last")
    assert set(before) == set(after)
    assert after["lm_head.weight"].dtype == torch.bfloat16
    moved = {key for key in before if not torch.equal(before[key], after[key])}
    assert moved and all("proj" in key for key in moved)  # linear layers, not the output
    assert (tmp_path / "run/last/adapter/adapter_config.json").exists()
    assert (tmp_path / "run/best/model.safetensors").exists()


def test_checkpointed_activations_give_the_same_gradient(model, tmp_path):
    plain = gradient(model, tmp_path / "a")
    assert torch.equal(gradient(model, tmp_path / "b", checkpointing=True), plain)


def test_a_loss_that_is_no_number_stops_the_run(model, tmp_path):
    broken = tmp_path / "broken"
    net = policy.load(model)
    net.lm_head.weight.data[3] = float("nan")
    net.save_pretrained(broken)
    policy.tokenizer(model).save_pretrained(broken)
    with pytest.raises(EngineError, match="update 1: the loss is nan; lower --lr"):
        run(str(broken), tmp_path / "run")


def test_the_loss_equals_that_of_trl_on_the_same_batches(model, tmp_path):
    trl = pytest.importorskip("trl", reason="the comparison needs tircli[dev]")
    datasets = pytest.importorskip("datasets", reason="the comparison needs tircli[dev]")
    lines, _ = run(model, tmp_path / "ours", EXAMPLES[:8], clip=0.0, schedule="constant")
    rows = []
    for one in EXAMPLES[:8]:
        labels = [i if t else -100 for i, t in zip(one.ids, one.trained, strict=True)]
        rows.append({"input_ids": one.ids, "labels": labels})
    arguments = trl.SFTConfig(
        output_dir=str(tmp_path / "trl"),
        per_device_train_batch_size=8,
        max_steps=3,
        learning_rate=1e-2,
        lr_scheduler_type="constant",
        max_grad_norm=0.0,
        logging_steps=1,
        report_to="none",
        use_cpu=True,
        bf16=False,
        activation_checkpointing=False,
        dataloader_pin_memory=False,
        disable_tqdm=True,
    )
    trainer = trl.SFTTrainer(
        policy.load(model),
        arguments,
        train_dataset=datasets.Dataset.from_list(rows),
        processing_class=policy.tokenizer(model),
    )
    trainer.train()
    theirs = [line["loss"] for line in trainer.state.log_history if "loss" in line]
    assert theirs == pytest.approx([line["loss"] for line in lines], rel=1e-5)


# The command.

DEFAULTS = {
    "input": "-", "model": "", "out": "", "eval": None, "filter": None, "per_question": None,
    "size": None, "by_reward": False, "max_length": None, "train_on_results": False,
    "train_on_hints": False, "show_mask": 0, "keep": 1, "report_to": [], "preset": None,
    "overwrite": False, "resume": False, "on_error": "fail", "quiet": False,
}  # fmt: skip


def write(path: Path, *trajectories: Trajectory) -> str:
    with jsonl.Writer(str(path)) as writer:
        for trajectory in trajectories:
            writer.write(trajectory)
        writer.finish()
    return str(path)


def record(identity: str, last: str = "<answer>\\boxed{4}</answer>", **changed) -> Trajectory:
    segments = [
        Segment("prompt", "2 + 2?"),
        Segment("model", "<think>I ask.</think><python>2 + 2</python>"),
        Segment("tool", "<result>\n4\n</result>", tool=ToolUse("python", "2 + 2", "4")),
        Segment("model", "<think>So.</think>" + last),
    ]
    fields = {"stop": "answer", "prediction": "4", "answer": "4", "made": {"protocol": "et"}}
    return Trajectory(identity, "q", "2 + 2?", segments=segments, **(fields | changed))


@pytest.mark.parametrize(
    "changed, said",
    [
        ({"model": ""}, "--model: missing"),
        ({"out": ""}, "--out: missing"),
        ({"model": "./nowhere"}, "model ./nowhere: no such folder"),
        ({"filter": "rtf"}, '--filter: "rtf"; choose rft'),
        ({"size": 3}, "need --filter rft"),
        ({"preset": "ett"}, '--preset: no preset "ett"; choose one of et'),
        ({"batch": 0}, "--batch: must be 1 or more"),
        ({"lr": -1.0}, "--lr: must be more than 0"),
        ({"schedule": "cosin"}, '--schedule: "cosin"; choose cosine'),
        ({"on_error": "skp"}, '--on-error: "skp"'),
    ],
)
def test_options_that_cannot_work_are_refused_in_one_line(model, tmp_path, changed, said):
    given = {"model": model, "out": str(tmp_path / "run"), "input": str(tmp_path / "none.jsonl")}
    with pytest.raises(InputError) as error:
        stage.run(**(DEFAULTS | given | changed))
    assert said in str(error.value) and "\n" not in str(error.value)


def test_a_folder_that_is_not_ours_is_never_emptied(model, tmp_path):
    (tmp_path / "thesis.tex").write_text("work")
    for overwrite in (False, True):
        with pytest.raises(InputError, match=r"thesis\.tex"):
            stage.run(**(DEFAULTS | {"model": model, "out": str(tmp_path), "overwrite": overwrite}))
    assert (tmp_path / "thesis.tex").exists()


def test_batch_that_micro_batches_do_not_divide_is_refused(model, tmp_path):
    with pytest.raises(InputError, match=r"--batch 8: not a multiple of --micro-batch 3"):
        run(model, tmp_path / "run", micro_batch=3)


def test_an_unknown_reporter_is_refused(model, tmp_path):
    with pytest.raises(InputError, match='"wandbb"; choose tensorboard, wandb, trackio'):
        sft.train(model, tmp_path / "run", EXAMPLES, Settings(), report_to=["wandbb"])


def test_an_option_wins_over_the_preset_and_that_over_the_default(tmp_path):
    assert choose("et", {"lr": None, "batch": 8}) == Settings(lr=5e-6, batch=8, epochs=3.0)
    assert choose(None, {"lora": 8}).lr == 1e-4
    mine = tmp_path / "mine.toml"
    mine.write_text("[sft]\nlr = 1e-3\nepoch = 2\n")
    with pytest.raises(InputError, match='no setting "epoch"'):
        choose(str(mine), {})


def command(*arguments: object, launch: tuple[str, ...] = ()) -> subprocess.CompletedProcess:
    start = launch or (sys.executable, "-m", "tircli.cli")
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(
        [*start, "sft", *map(str, arguments)],
        capture_output=True,
        timeout=300,
        env=environment,
        text=True,
    )


def test_the_command_filters_trains_and_writes_lines_alone_to_stdout(model, tmp_path):
    bad = record("b", prediction="5")
    bad.segments[-1].text = bad.segments[-1].text.replace("4", "5")
    records = write(tmp_path / "t.jsonl", record("a"), bad)
    out = tmp_path / "run"
    how = ("--batch", 1, "--micro-batch", 1, "--epochs", 2, "--filter", "rft")
    done = command(records, "-m", model, "--out", out, *how)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line.get("step") for line in lines] == [1, 2, None]
    assert (lines[-1]["records"], lines[-1]["steps"]) == (1, 2)
    assert "filter rft: 1 kept; rejected: 1 not correct" in done.stderr
    assert "1 records without ids: tokenised now, segment by segment" in done.stderr
    again = command(records, "-m", model, "--out", out)
    assert (again.returncode, again.stdout) == (2, "")
    assert again.stderr.count("\n") == 1 and "holds a run; add --overwrite" in again.stderr


def test_the_mask_is_shown_between_marks_where_there_is_no_colour(model, tmp_path):
    records = write(tmp_path / "t.jsonl", record("a"), record("b"))
    done = command(records, "-m", model, "--show-mask", 1)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1:] == [
        "2 + 2?\u27e6<think>I ask.</think><python>2 + 2</python>\u27e7<result>",
        "4",
        "</result>\u27e6<think>So.</think><answer>\\boxed{4}</answer><eos>\u27e7",
    ]


def test_long_records_are_cut_and_that_is_said(model, tmp_path, capsys):
    long = record("long", last="x" * 200)
    records = write(tmp_path / "t.jsonl", record("a"), long)
    how = {"input": records, "model": model, "show_mask": 2}
    assert stage.run(**(DEFAULTS | how)) == 0
    shown = capsys.readouterr()
    assert "1 records over 128 tokens: cut at a segment's end" in shown.err
    assert "--- long: 43 of 49 tokens trained" in shown.out


@pytest.mark.slow
def test_two_processes_train_the_same_model_as_one(model, tmp_path):
    records = write(
        tmp_path / "t.jsonl", *(record(f"r{i}", last=f"{i}" * (i + 1)) for i in range(8))
    )
    how = ("--batch", 4, "--micro-batch", 1, "--epochs", 2, "--lr", "1e-2", "--eval", records)
    one = command(records, "-m", model, "--out", tmp_path / "one", *how)
    launch = (sys.executable, "-m", "accelerate.commands.launch", "--cpu", "--num_processes", "2",
              "--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no",
              "-m", "tircli.cli")  # fmt: skip
    two = command(records, "-m", model, "--out", tmp_path / "two", *how, launch=launch)
    assert (one.returncode, two.returncode) == (0, 0), one.stderr + two.stderr
    left, right = ([json.loads(x) for x in done.stdout.splitlines()] for done in (one, two))
    assert len(left) == len(right)
    for a, b in zip(left[:-1], right[:-1], strict=True):
        for key in ("loss", "grad_norm", "eval_loss"):
            assert a.get(key, 0) == pytest.approx(b.get(key, 0), rel=1e-5)
    first, second = (weights(tmp_path / name / "last") for name in ("one", "two"))
    assert all(torch.allclose(first[key], second[key], atol=1e-5) for key in first)
