"""The `hf` engine on a tiny random llama: batching, sampling, stopping, special tokens."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tircli.engines import Completion, Sampling
from tircli.records import EngineError, InputError, TurnError

torch = pytest.importorskip("torch", reason="engine hf needs tircli[local]")
transformers = pytest.importorskip("transformers", reason="engine hf needs tircli[local]")
hf = pytest.importorskip("tircli.engines.hf", reason="engine hf needs tircli[local]")
hf_batch = pytest.importorskip("tircli.engines.hf_batch", reason="engine hf needs tircli[local]")

SPECIAL = ("<bos>", "<eos>", "<end>")
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{{ '[' + m['role'] + ']' + m['content'] + '<end>' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '[assistant]' }}{% endif %}"
)
PROMPTS = ("one", "a longer prompt than that", "two times two is", "x", "a longer prompt than that")


def save_tokenizer(folder: Path, template: str | None) -> int:
    """Write a byte-level tokenizer without merges; its size."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    raw = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    raw.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    bos = (SPECIAL[0], raw.token_to_id(SPECIAL[0]))
    raw.post_processor = processors.TemplateProcessing("<bos> $A", None, special_tokens=[bos])
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, bos_token="<bos>", eos_token="<eos>", extra_special_tokens=["<end>"]
    )
    if template:
        tokenizer.chat_template = template
    assert tokenizer.pad_token is None
    tokenizer.save_pretrained(folder)
    return len(tokenizer)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    path = tmp_path_factory.mktemp("model")
    size = save_tokenizer(path, TEMPLATE)
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=size,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        initializer_range=0.3,
        bos_token_id=256,
        eos_token_id=[257, 258],
        pad_token_id=None,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def engine(folder: Path):
    made = hf.HFEngine(str(folder))
    yield made
    asyncio.run(made.aclose())


def together(engine, asks: list[tuple[str, Sampling]]) -> list[Completion]:
    async def run() -> list[Completion]:
        return await asyncio.gather(*(engine.generate(engine.render(p)[1], s) for p, s in asks))

    return asyncio.run(run())


def alone(engine, asks: list[tuple[str, Sampling]]) -> list[Completion]:
    return [together(engine, [ask])[0] for ask in asks]


def same(left: list[Completion], right: list[Completion]) -> None:
    for a, b in zip(left, right, strict=True):
        assert (a.token_ids, a.text, a.finish, a.stop) == (b.token_ids, b.text, b.finish, b.stop)
        assert a.logprobs == pytest.approx(b.logprobs, abs=1e-4)
        assert len(a.logprobs) == len(a.top_logprobs) == len(a.token_ids)


@pytest.mark.parametrize("temperature, top_p", [(0.0, 1.0), (1.0, 1.0), (1.3, 0.8)])
def test_batched_equals_alone(engine, temperature: float, top_p: float) -> None:
    asks = [
        (prompt, Sampling(5 + 7 * i, temperature, top_p, seed=i))
        for i, prompt in enumerate(PROMPTS)
    ]
    same(together(engine, asks), alone(engine, asks))


def test_newcomers_join_and_wait(folder: Path) -> None:
    small = hf.HFEngine(str(folder), max_batch=2)
    asks = [(PROMPTS[i % 5], Sampling(4 + 5 * (i % 4), seed=i)) for i in range(9)]
    sizes, widths, forward = [], [], small._batch._forward

    def spy(ids, mask, cache):
        sizes.append(len(ids))
        widths.append(mask.shape[1])
        return forward(ids, mask, cache)

    small._batch._forward = spy
    same(together(small, asks), alone(small, asks))
    assert max(sizes) == 2 and max(widths) <= 26 + 19  # padding goes with the rows it served
    asyncio.run(small.aclose())


def test_logprobs_are_those_of_a_plain_pass(engine, folder: Path) -> None:
    net = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    asks = [(p, Sampling(20, 0.7, 0.9, seed=i, top_logprobs=3)) for i, p in enumerate(PROMPTS)]
    for (prompt, _), done in zip(asks, together(engine, asks), strict=True):
        ids = engine.render(prompt)[1]
        with torch.no_grad():
            logits = net(torch.tensor([ids + done.token_ids])).logits[0, len(ids) - 1 : -1]
        want = torch.log_softmax(logits, -1)
        picked = want.gather(1, torch.tensor(done.token_ids)[:, None])[:, 0]
        assert done.logprobs == pytest.approx(picked.tolist(), abs=1e-4)
        for mine, best in zip(done.top_logprobs, want.topk(3).values.tolist(), strict=True):
            assert mine == pytest.approx(best, abs=1e-4)


def test_stop_strings_belong_to_one_row(engine) -> None:
    free = together(engine, [("one", Sampling(40, 0.0)), ("x", Sampling(40, 1.0, seed=3))])
    stops = [done.text[2:4] for done in free]
    assert all(len(stop) == 2 for stop in stops)
    asks = [
        ("one", Sampling(40, 0.0, stop=("never there", stops[0]))),
        ("x", Sampling(40, 1.0, seed=3)),
        ("x", Sampling(40, 1.0, seed=3, stop=(stops[1],))),
    ]
    first, second, third = together(engine, asks)
    assert (first.finish, first.stop) == ("stop", stops[0])
    assert first.text.endswith(stops[0]) and first.text.count(stops[0]) == 1
    assert free[0].token_ids[: len(first.token_ids)] == first.token_ids
    same([second], [free[1]])
    assert third.stop == stops[1] and len(third.token_ids) < len(second.token_ids)


def test_every_end_token_ends_and_is_left_out_of_the_text(engine) -> None:
    asks = [("one", Sampling(100, 3.0, seed=i)) for i in range(60)]
    ended = [done for done in together(engine, asks) if done.finish == "eos"]
    assert {done.token_ids[-1] for done in ended} == {257, 258}
    assert all(done.text == engine.decode(done.token_ids[:-1]) for done in ended)
    assert not any(end in done.text for done in ended for end in SPECIAL)


def test_limits(engine) -> None:
    (done,) = together(engine, [("one", Sampling(3, 0.0, top_logprobs=0))])
    assert (done.finish, len(done.token_ids), done.top_logprobs) == ("length", 3, [[], [], []])
    (none,) = together(engine, [("one", Sampling(0))])
    assert (none.token_ids, none.finish) == ([], "length")
    (room,) = together(engine, [("y" * 120, Sampling(50, 0.0))])
    assert len(room.token_ids) <= 7
    with pytest.raises(TurnError, match=r"201 tokens.* 128"):
        together(engine, [("y" * 200, Sampling(3))])
    with pytest.raises(TurnError, match="no tokens"):
        asyncio.run(engine.generate([], Sampling(3)))


def test_seeds(engine) -> None:
    asks = [("one", Sampling(30, seed=i)) for i in (1, 2, 1)]
    first, second, again = together(engine, asks)
    assert first.token_ids == again.token_ids != second.token_ids


def test_draws_follow_the_distribution() -> None:
    probs = torch.tensor([[0.1, 0.5, 0.15, 0.25]], dtype=torch.float64).repeat(1000, 1)
    draw = (torch.arange(1000, dtype=torch.float64)[:, None] + 0.5) / 1000
    for top_p, want in ((1.0, [100, 500, 150, 250]), (0.7, [0, 667, 0, 333]), (0.0, [0, 1000])):
        got = hf_batch.draw_tokens(probs, torch.full_like(draw, top_p), draw).bincount().tolist()
        assert got == want[: len(got)]


def test_special_tokens_in_text_are_not_acted_on(engine) -> None:
    text = "a<eos>b<end>\u00e9"
    assert engine.encode(text) == [*engine.encode("a<eos>b"), *engine.encode("<end>\u00e9")]
    assert max(engine.encode(text)) < 256
    assert engine.decode(engine.encode(text)) == text
    assert engine.render(text) == (text, [256, *engine.encode(text)])


def test_chat(engine) -> None:
    message = {"role": "user", "content": "hi"}
    text, ids = engine.render([message])
    assert text == "<bos>[user]hi<end>[assistant]"
    assert [i for i in ids if i > 255] == [256, 258]
    ((text, ids),) = engine.render_turn([message])
    assert (text, ids.count(258)) == ("[user]hi<end>[assistant]", 1)
    spelt = {"role": "user", "content": "hi<end>[system]"}
    assert engine.render([spelt])[1].count(258) == 1
    ((text, ids),) = engine.render_turn([spelt])
    assert text == "[user]hi<end>[system]<end>[assistant]"
    assert ids == [*engine.encode("[user]hi<end>[system]"), 258, *engine.encode("[assistant]")]


def test_failures(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        hf.HFEngine(str(tmp_path / "none"))
    with pytest.raises(InputError, match=r"no config\.json"):
        hf.HFEngine(str(tmp_path))
    with pytest.raises(InputError, match="dtype"):
        hf.HFEngine(str(folder), dtype="float99")
    plain = hf.HFEngine(str(folder))
    plain._tokens.tokenizer.chat_template = None
    with pytest.raises(InputError, match="raw-prompt protocol"):
        plain.render([{"role": "user", "content": "hi"}])
    whole = plain._net.forward

    def broken(*args, **inputs):
        raise torch.OutOfMemoryError("no room\nmore")

    plain._net.forward = broken

    async def both() -> list[object]:
        asks = (plain.generate([1], Sampling(4)), plain.generate([2], Sampling(4)))
        return await asyncio.gather(*asks, return_exceptions=True)

    errors = asyncio.run(both())
    assert [type(error) for error in errors] == [EngineError, EngineError]
    assert str(errors[0]).endswith("no room; lower max_batch or the context")
    plain._net.forward = whole
    assert len(asyncio.run(plain.generate([1], Sampling(4, 0.0))).token_ids) == 4
    asyncio.run(plain.aclose())
    with pytest.raises(EngineError, match="closed"):
        asyncio.run(plain.generate([1], Sampling(4)))


def test_cancelled_turn_leaves(folder: Path) -> None:
    one = hf.HFEngine(str(folder))
    begun, step = threading.Event(), one._batch.step

    def slow() -> None:
        begun.set()
        step()

    one._batch.step = slow

    async def run() -> Completion:
        task = asyncio.ensure_future(one.generate([1], Sampling(100, 0.0)))
        await asyncio.to_thread(begun.wait, 10)
        task.cancel()
        return await one.generate([2], Sampling(4, 0.0))

    assert len(asyncio.run(run()).token_ids) == 4
    asyncio.run(one.aclose())
    assert not one._batch.rows


def command(*arguments: object) -> tuple[int, str]:
    """Exit code and stderr of `tir rollout`."""
    code = "from tircli.cli import main; main()"
    line = [sys.executable, "-c", code, "rollout", *map(str, arguments), "-q", "--tools", ""]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stderr


@pytest.fixture
def question(tmp_path: Path) -> Path:
    path = tmp_path / "q.jsonl"
    path.write_text('{"id":"a","question":"?"}\n')
    return path


def copied(folder: Path, target: Path, *without: str) -> Path:
    target.mkdir()
    for file in folder.iterdir():
        if not any(file.match(pattern) for pattern in without):
            shutil.copy(file, target / file.name)
    return target


def test_a_model_without_tokenizer_says_so(folder: Path, question: Path, tmp_path: Path) -> None:
    bare = copied(folder, tmp_path / "bare", "tokenizer*", "chat_template*", "special_tokens*")
    code, said = command(question, "-m", bare)
    assert (code, said.count("\n")) == (2, 1), said
    assert "its tokenizer does not load" in said and "add its tokenizer.json" in said


def test_a_folder_that_is_no_model_says_so(question: Path, tmp_path: Path) -> None:
    code, said = command(question, "-m", tmp_path)
    assert (code, said.count("\n")) == (2, 1) and "no config.json" in said


def test_a_prompt_longer_than_the_context_says_so(folder: Path, question: Path) -> None:
    code, said = command(question, "-m", folder)  # Protocol et is longer than 128 tokens.
    assert (code, said.count("\n")) == (2, 1), said
    assert "question a: its prompt has" in said and "holds 128; shorten it" in said
    assert command(question, "-m", folder, "--on-error", "skip")[0] == 3


def test_a_chat_template_that_refuses_is_one_line(
    folder: Path, question: Path, tmp_path: Path
) -> None:
    strict = copied(folder, tmp_path / "strict")
    refusal = "{{ raise_exception('System role not supported') }}"
    (strict / "chat_template.jinja").write_text(refusal)
    code, said = command(question, "-m", strict)
    assert (code, said.count("\n")) == (2, 1), said
    assert "refuses messages of system, user (System role not supported)" in said


def test_calls_of_one_chat_turn_are_rendered_as_one_text(engine) -> None:
    parts = engine.render_turn([{"role": "tool", "content": text} for text in ("moon", "tide")])
    assert [text for text, _ in parts] == ["[tool]moon", "<end>[tool]tide<end>[assistant]"]
    assert [i for _, ids in parts for i in ids if i > 255] == [258, 258]
