#!/usr/bin/env python
"""Make what the tiny model is trained from: its questions, corpus, demonstrations and blank start.

usage: python scripts/make_tiny.py DATA OUT
DATA gets tiny_corpus.jsonl, tiny_train.jsonl and tiny_test.jsonl; OUT gets demos.jsonl,
held_out.jsonl and init/ (random weights and a tokenizer). `make tiny` does it all.

Easy questions are small closed sets, known by heart after training, and half of the demonstrations
call a tool for them all the same. Hard ones need the tool: products of two digits, and facts
that differ in every demonstration, so that only a search tells; few demonstrations guess.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tircli.protocols import load
from tircli.records import stable_random
from tircli.tools.search import show
from tircli.tools.search.corpus import Passage
from tircli.tools.search.searcher import Hit

PROTOCOL = load("et")
DEMOS, HELD_OUT = 38400, 400
CAPITALS = (
    "France Paris, Italy Rome, Spain Madrid, Japan Tokyo, Egypt Cairo, Peru Lima, Kenya Nairobi, "
    "Norway Oslo, Cuba Havana, Greece Athens, Poland Warsaw, Ireland Dublin"
)
COUNTRIES: dict[str, str] = dict(pair.split() for pair in CAPITALS.split(", "))
NAMES = [
    a + b
    for a in ("Al", "Bor", "Cer", "Dal", "Er", "Fen", "Gil", "Hol")
    for b in ("va", "rin", "dis", "mo", "tek", "sya", "lund", "ora")
]
TOWNS = [a + b for a in ("Tor", "Mel", "Kas", "Vin", "Ost") for b in ("ma", "ford", "by", "ek")]
PHRASES = {
    "sum": [
        *("What is {} + {}?", "Compute {} + {}.", "{} + {} = ?", "Add {} and {}."),
        *("How much is {} + {}?", "Find {} + {}.", "{} plus {}?", "Work out {} + {}."),
    ],
    "product": ["What is {} * {}?", "Compute {} * {}.", "{} * {} = ?", "Multiply {} by {}."],
    "capital": [
        *("What is the capital of {}?", "Name the capital of {}.", "The capital of {} is?"),
        *("Tell me the capital of {}.", "Which city rules {}?", "The capital of {}?"),
        *("Which city is the capital of {}?", "{} has which capital?"),
    ],
    "born": [
        *("Where was {} born?", "Name the town where {} was born.", "{} was born in which town?"),
        "In which town was {} born?",
    ],
}
EASY = ("sum", "capital")
THINK = {
    "know": ["I know it.", "That is easy."],
    "python": ["I compute it.", "Python can tell."],
    "search": ["I look it up.", "I need to search."],
    "again": ["I check it."],
    "repair": ["That failed."],
    "so": ["I have it."],
}
SENTENCES = {"capital": "The capital of {} is {}.", "born": "{} was born in {}."}


def questions() -> Iterator[tuple[str, tuple[Any, ...], str]]:
    """`(kind, subject, text)` of every question of the closed sets."""
    for kind, phrases in PHRASES.items():
        subjects: list[tuple[Any, ...]] = [(name,) for name in NAMES]
        if kind == "sum":
            subjects = [(a, b) for a in range(10) for b in range(10)]
        elif kind == "capital":
            subjects = [(country,) for country in COUNTRIES]
        elif kind == "product":
            subjects = []
        for subject in subjects:
            for phrase in phrases:
                yield kind, subject, phrase.format(*subject)


def product(rng: random.Random) -> tuple[str, tuple[int, int], str]:
    """A product of two numbers of two digits."""
    pair = rng.randrange(11, 100), rng.randrange(11, 100)
    return "product", pair, rng.choice(PHRASES["product"]).format(*pair)


def is_test(kind: str, subject: tuple[Any, ...], text: str) -> bool:
    """True if a question is held out: a product by its numbers, any other by its wording.

    A subject that no demonstration names would be a token without meaning.
    """
    key = "/".join(map(str, subject)) if kind == "product" else text
    return stable_random("tiny", kind, key).random() < 0.2


def world(rng: random.Random) -> dict[tuple[str, str], str]:
    """`(relation, subject) -> object`: capitals as they are, all else by chance."""
    facts = {("capital", country): city for country, city in COUNTRIES.items()}
    for name in NAMES:
        facts["born", name] = rng.choice(TOWNS)
    return facts


def answer(kind: str, subject: tuple[Any, ...], facts: dict[tuple[str, str], str]) -> str:
    """The right answer in a world."""
    if kind == "sum":
        return str(subject[0] + subject[1])
    if kind == "product":
        return str(subject[0] * subject[1])
    return facts[kind, subject[0]]


class Demo:
    """One demonstration under way: segments of a record, without ids."""

    def __init__(self, rng: random.Random, text: str) -> None:
        self.rng = rng
        self.segments: list[dict[str, Any]] = [{"role": "prompt", "text": text + "\n"}]
        self.turn = ""

    def think(self, kind: str) -> None:
        self.turn += f"<think>{self.rng.choice(THINK[kind])}</think>"

    def call(self, tool: str, source: str, output: str, status: str = "ok") -> None:
        text = f"{self.turn}<{tool}>{source}</{tool}>"
        use = {"name": tool, "input": source, "output": output, "status": status}
        wrapped = PROTOCOL.wrap(output)
        self.segments += [
            {"role": "model", "text": text},
            {"role": "tool", "text": wrapped, "tool": use},
        ]
        self.turn = ""

    def answer(self, value: str) -> list[dict[str, Any]]:
        last = f"{self.turn}<answer>\\boxed{{{value}}}</answer>"
        return [*self.segments, {"role": "model", "text": last}]


def passages(facts: dict[tuple[str, str], str], query: str, rng: random.Random) -> str:
    """What a search for `query` shows in a world: the subject's passages, perhaps another."""
    mine = [key for key in facts if key[1] == query]
    rng.shuffle(mine)
    others = rng.sample([key for key in facts if key[1] != query], rng.randrange(0, 2))
    return show(PROTOCOL.search, [Hit(passage(key, facts)) for key in [*mine, *others]])


def passage(key: tuple[str, str], facts: dict[tuple[str, str], str]) -> Passage:
    """One fact in words."""
    relation, subject = key
    text = SENTENCES[relation].format(subject, facts[key])
    return Passage(f"{relation}-{subject}", None, text)


def use_tool(demo: Demo, kind: str, subject: tuple[Any, ...], facts: Any) -> None:
    """One good call and its result."""
    if kind in ("sum", "product"):
        sign = "+" if kind == "sum" else "*"
        code = f"print({subject[0]} {sign} {subject[1]})"
        demo.call("python", code, answer(kind, subject, facts))
    else:
        demo.call("search", subject[0], passages(facts, subject[0], demo.rng))


def demonstrate(kind: str, subject: tuple[Any, ...], text: str, rng: random.Random) -> Any:
    """Segments that answer a question: with no call, one, two, or after a failed one."""
    facts = world(rng)
    right = answer(kind, subject, facts)
    demo = Demo(rng, text)
    draw = rng.random()
    tool = "python" if kind in ("sum", "product") else "search"
    if draw < (0.5 if kind in EASY else 0.06):
        demo.think("know")
        return demo.answer(right)
    demo.think(tool)
    if tool == "python" and draw > 0.96:
        sign = "+" if kind == "sum" else "*"
        error = "NameError: name 'prnt' is not defined"
        demo.call("python", f"prnt({subject[0]} {sign} {subject[1]})", error, "error")
        demo.think("repair")
    use_tool(demo, kind, subject, facts)
    if 0.85 < draw <= 0.96:
        demo.think("again")
        use_tool(demo, kind, subject, facts)
    demo.think("so")
    return demo.answer(right)


def draw(rng: random.Random, closed: dict[str, list[Any]]) -> tuple[str, tuple[Any, ...], str]:
    """A question for a demonstration, none of the held-out ones."""
    kind = rng.choices(["sum", "product", "capital", "born"], [40, 30, 10, 20])[0]
    if kind == "product":
        while is_test(*(found := product(rng))):
            pass
        return found
    chosen: tuple[str, tuple[Any, ...], str] = rng.choice(closed[kind])
    return chosen


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    print(f"{path}: {len(rows)} lines")


def write_questions(folder: Path) -> None:
    """The corpus of the real world, questions to train on and held-out ones."""
    facts = world(stable_random("tiny", "world"))
    corpus = [passage(key, facts) for key in facts]
    write(folder / "tiny_corpus.jsonl", [{"id": p.id, "contents": p.text} for p in corpus])
    for name, test, counts in (
        ("train", False, {"sum": 160, "product": 120, "capital": 20, "born": 100}),
        ("test", True, {"sum": 150, "product": 290, "capital": 15, "born": 45}),
    ):
        rng = stable_random("tiny", name)
        pool: dict[str, list[Any]] = {kind: [] for kind in PHRASES}
        for item in questions():
            if is_test(*item) == test:
                pool[item[0]].append(item)
        while len(pool["product"]) < counts["product"]:
            item = product(rng)
            if is_test(*item) == test and item not in pool["product"]:
                pool["product"].append(item)
        rows = []
        for kind, count in counts.items():
            some = rng.sample(pool[kind], count)
            for _, subject, text in some:
                value = answer(kind, subject, facts)
                qa = kind not in ("sum", "product")
                rows.append({
                    "question": text, "answer": [value] if qa else value,
                    "task": "qa" if qa else "math",
                    "level": "easy" if kind in EASY else "hard", "kind": kind,
                })  # fmt: skip
        rng.shuffle(rows)
        write(
            folder / f"tiny_{name}.jsonl", [{"id": f"{name}{i}", **r} for i, r in enumerate(rows)]
        )


def demos(count: int, part: str) -> list[dict[str, Any]]:
    """Demonstrations as records without ids."""
    closed: dict[str, list[Any]] = {kind: [] for kind in PHRASES}
    for item in questions():
        if not is_test(*item):
            closed[item[0]].append(item)
    made = []
    for i in range(count):
        rng = stable_random("tiny", part, i)
        kind, subject, text = draw(rng, closed)
        segments = demonstrate(kind, subject, text, rng)
        made.append({"id": f"{part}{i}", "question": text, "stop": "answer", "segments": segments})
    return made


def tokenizer(texts: list[str], folder: Path) -> int:
    """A byte-level tokenizer that splits digits and knows the tags; how many tokens it has."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)]
    )
    raw.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=640,
        special_tokens=["<eos>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    raw.train_from_iterator(texts, trainer)
    tags = ("think", "python", "search", "result", "answer")
    raw.add_tokens([AddedToken(f"<{s}{t}>", normalized=False) for t in tags for s in ("", "/")])
    made = PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="<eos>", pad_token="<eos>")
    # The system text of a protocol is left out: this model knows one way to write.
    made.chat_template = (
        "{% for m in messages %}{% if m['role'] == 'user' %}{{ m['content'] }}\n{% endif %}"
        "{% endfor %}"
    )
    made.save_pretrained(folder)
    return len(made)


def blank(folder: Path, size: int) -> None:
    """A llama of about a million random weights."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=size,
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=0,
        pad_token_id=0,
    )
    model = LlamaForCausalLM(config)
    print(f"{folder}: {model.num_parameters():,} weights, {size} tokens")
    model.to(torch.bfloat16).save_pretrained(folder)


def main(arguments: list[str]) -> None:
    """Write all of it."""
    if len(arguments) != 2:
        sys.exit("usage: python scripts/make_tiny.py DATA OUT")
    data, out = map(Path, arguments)
    out.mkdir(parents=True, exist_ok=True)
    write_questions(data)
    records = demos(DEMOS, "demo")
    write(out / "demos.jsonl", records)
    write(out / "held_out.jsonl", demos(HELD_OUT, "held"))
    texts = ["".join(s["text"] for s in r["segments"]) for r in records[:4000]]
    blank(out / "init", tokenizer(texts, out / "init"))


if __name__ == "__main__":
    main(sys.argv[1:])
