"""The `vllm` engine, really: a tiny random llama in this process; `make test-vllm` runs it."""

from __future__ import annotations

import asyncio
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from tircli.engines import Completion, Sampling
from tircli.records import InputError

# vLLM and what it imports warn of their own matters.
pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("default")]
vllm = pytest.importorskip("vllm", reason="engine vllm needs tircli[vllm]; make test-vllm")
torch = pytest.importorskip("torch", reason="engine vllm needs tircli[vllm]; make test-vllm")
transformers = pytest.importorskip("transformers", reason="engine vllm needs tircli[vllm]")

OPTIONS = {"enforce_eager": True, "dtype": "float32", "max_model_len": 512, "max_num_seqs": 8}
OPTIONS |= {"gpu_memory_utilization": 0.1}  # On a CPU: of the memory, whatever its name says.
PROMPTS = ("one", "a longer prompt than that", "two times two is")


def make_model(folder: Path) -> None:
    """Write a random llama with a byte-level tokenizer."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    raw = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    raw.add_special_tokens(["<eos>"])
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="<eos>")
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        initializer_range=0.3,
        eos_token_id=256,
        bos_token_id=None,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    make_model(path)
    return path


def adapter(folder: Path, target: Path) -> Path:
    """A LoRA adapter that changes what the model says."""
    peft = pytest.importorskip("peft", reason="the adapter is made by peft")
    net = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    config = peft.LoraConfig(r=4, lora_alpha=64, target_modules=["q_proj", "v_proj"])
    net = peft.get_peft_model(net, config)
    for name, parameter in net.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.5)
    net.save_pretrained(target)
    return target


@pytest.fixture(scope="module")
def results(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Completion]]:
    """All turns that the tests look at, from one engine: it takes a minute to start."""
    from tircli.engines.vllm import VLLMEngine

    lora = adapter(folder, tmp_path_factory.mktemp("adapter"))

    async def run() -> dict[str, list[Completion]]:
        engine = VLLMEngine(str(folder), **OPTIONS)

        async def turns(*samplings: Sampling, prompt: str = "one") -> list[Completion]:
            ids = engine.render(prompt)[1]
            return await asyncio.gather(*(engine.generate(ids, s) for s in samplings))

        greedy = await turns(Sampling(24, 0.0, key="g"))
        # vLLM looks for stop strings in whole characters; a random model writes halves as well.
        text = greedy[0].text
        pairs = (text[i : i + 2] for i in range(len(text) - 1))
        stop = next(pair for pair in pairs if pair.isascii() and text.count(pair) == 1)
        got = {
            "greedy": greedy,
            "stopped": await turns(Sampling(24, 0.0, stop=("never there", stop), key="s")),
            "seeds": await turns(*(Sampling(24, 1.0, seed=s, key="k") for s in (1, 2, 1))),
            "hot": await turns(Sampling(24, 0.5, 0.8, seed=3, top_logprobs=3), prompt=PROMPTS[1]),
            "ended": await turns(*(Sampling(200, 2.0, seed=s, key="e") for s in range(40))),
        }
        late = asyncio.ensure_future(turns(Sampling(200, 1.0, key="c")))
        await asyncio.sleep(0.05)
        late.cancel()
        await asyncio.gather(late, return_exceptions=True)
        got["after a cancelled one"] = await turns(Sampling(24, 0.0, key="g"))
        assert engine.context == 512
        with pytest.raises(InputError, match="temperature"):
            await engine.generate([1], Sampling(4, 30.0))
        await engine.aclose()
        return got

    async def run_adapted() -> list[Completion]:
        engine = VLLMEngine(str(folder), lora=str(lora), **OPTIONS)
        try:
            return [await engine.generate(engine.render("one")[1], Sampling(24, 0.0))]
        finally:
            await engine.aclose()

    got = asyncio.run(run())
    got["adapted"] = asyncio.run(run_adapted())
    return got


def plain(folder: Path, prompt: str, ids: list[int], lora: Path | None = None):
    """Log-probabilities (T, V) of a plain transformers pass after `prompt`."""
    from tircli.engines.tokens import Tokens

    net = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    before = Tokens(str(folder)).render(prompt)[1]
    with torch.no_grad():
        logits = net(torch.tensor([before + ids])).logits[0, len(before) - 1 : -1]
    return torch.log_softmax(logits, -1)


def test_greedy_ids_and_raw_log_probabilities_are_those_of_a_plain_pass(results, folder):
    (done,) = results["greedy"]
    want = plain(folder, "one", done.token_ids)
    assert done.token_ids == want.argmax(-1).tolist()
    assert done.logprobs == pytest.approx(want.max(-1).values.tolist(), abs=1e-3)


def test_log_probabilities_are_before_temperature_and_top_p(results, folder):
    (done,) = results["hot"]
    want = plain(folder, PROMPTS[1], done.token_ids)
    picked = want.gather(1, torch.tensor(done.token_ids)[:, None])[:, 0]
    assert done.logprobs == pytest.approx(picked.tolist(), abs=1e-3)
    for mine, best in zip(done.top_logprobs, want.topk(3).values.tolist(), strict=True):
        assert mine == pytest.approx(best, abs=1e-3)


def test_a_stop_string_stays_with_its_ids(results):
    (free,), (done,) = results["greedy"], results["stopped"]
    assert done.finish == "stop" and done.text.endswith(done.stop)
    assert free.token_ids[: len(done.token_ids)] == done.token_ids
    assert len(done.logprobs) == len(done.top_logprobs) == len(done.token_ids)


def test_a_seed_gives_the_same_turn_and_another_seed_another(results):
    first, second, again = results["seeds"]
    assert first.token_ids == again.token_ids != second.token_ids


def test_an_end_token_ends_and_is_not_in_the_text(results):
    ended = [done for done in results["ended"] if done.finish == "eos"]
    assert ended and all(done.token_ids[-1] == 256 for done in ended)
    assert all("<eos>" not in done.text for done in results["ended"])
    assert {done.finish for done in results["ended"]} <= {"eos", "length"}


def test_a_cancelled_turn_leaves_nothing_behind(results):
    assert results["after a cancelled one"][0].token_ids == results["greedy"][0].token_ids


def test_an_adapter_changes_what_is_said(results):
    (done,), (base,) = results["adapted"], results["greedy"]
    assert done.token_ids != base.token_ids and all(map(math.isfinite, done.logprobs))


def test_bad_options_are_the_users_to_fix(folder, tmp_path):
    from tircli.engines.vllm import VLLMEngine

    with pytest.raises(InputError, match="has no dtipe"):
        VLLMEngine(str(folder), dtipe="float32")
    with pytest.raises(InputError, match="no adapter_config"):
        VLLMEngine(str(folder), lora=str(tmp_path))
    with pytest.raises(InputError, match="vLLM does not start"):
        VLLMEngine(str(folder), dtype="float99")


def test_the_command_writes_records_alone_to_stdout(folder, tmp_path):
    question = tmp_path / "q.jsonl"
    question.write_text('{"id":"a","question":"?"}\n')
    command = [sys.executable, "-c", "from tircli.cli import main; main()", "rollout", question]
    command += ["-m", folder, "--engine", "vllm", "-k", "3", "--protocol", "torl", "-q"]
    command += ["--max-tokens", "20", "--tools", ""]
    for key, value in OPTIONS.items():
        command += ["--engine-option", f"{key}={str(value).lower()}"]
    done = subprocess.run(list(map(str, command)), capture_output=True, timeout=600)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert [record["id"] for record in records] == ["a#0", "a#1", "a#2"]
    assert all(len(record["segments"][1]["logprobs"]) > 0 for record in records)
