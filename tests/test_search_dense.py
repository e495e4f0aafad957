"""Search by meaning with a tiny random encoder: pooling, prefixes, order, ties, resume."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tircli.records import InputError
from tircli.tools.search import corpus, folder, indexing

torch = pytest.importorskip("torch", reason="needs torch")
transformers = pytest.importorskip("transformers", reason="needs transformers")
pytest.importorskip("faiss", reason="needs faiss-cpu")

from tircli.tools.search import dense  # noqa: E402

WORDS = "[PAD] [UNK] [CLS] [SEP] moon sun star shines far near the query passage :".split()


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    """A BERT of two layers with random weights and a vocabulary of words."""
    path = tmp_path_factory.mktemp("encoder")
    (path / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    tokenizer = transformers.BertTokenizer(str(path / "vocab.txt"))
    config = transformers.BertConfig(
        vocab_size=len(WORDS),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=300,
    )
    torch.manual_seed(0)
    transformers.BertModel(config).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return str(path)


def rows(*texts: str) -> list[dict]:
    return [{"id": f"p{i}", "contents": text} for i, text in enumerate(texts)]


def write(path: Path, data: list[dict]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in data), "utf-8")
    return str(path)


def index(tmp_path, model, data, **options) -> dense.Dense:
    settings = dense.encoding(model, None, None, None)
    path = write(tmp_path / "c.jsonl", data)
    target = tmp_path / "idx"
    indexing.make(path, target, "dense", resume=False, settings=settings, **options)
    return dense.Dense(target)


TEXTS = ["moon shines", "sun shines near", "star far", "the moon the sun", "star star near far"]


@pytest.mark.parametrize("hnsw", [False, True])
def test_a_passage_is_nearest_to_itself(tmp_path, model, hnsw):
    searcher = index(tmp_path, model, rows(*TEXTS), hnsw=hnsw)
    hits = [found[0] for found in searcher.search(TEXTS, 2)]
    assert [hit.passage.text for hit in hits] == TEXTS
    assert [hit.score for hit in hits] == pytest.approx([1.0] * 5, abs=1e-4)


def test_the_order_is_that_of_the_inner_products(tmp_path, model):
    searcher = index(tmp_path, model, rows(*TEXTS))
    encoder = dense.Encoder(dense.encoding(model, None, None, None))
    scores = encoder.passages(TEXTS) @ encoder.queries(["sun moon"])[0]
    hits = searcher.search(["sun moon"], 5)[0]
    assert [hit.passage.id for hit in hits] == [f"p{i}" for i in np.argsort(-scores)]


def test_ties_go_by_id(tmp_path, model):
    data = [{"id": i, "contents": "moon"} for i in ("b", "a10", "a2", "c", "a")]
    searcher = index(tmp_path, model, data)
    assert [hit.passage.id for hit in searcher.search(["moon"], 3)[0]] == ["a", "a10", "a2"]


def test_the_mean_leaves_padding_out_and_has_length_one(model):
    encoder = dense.Encoder(dense.encoding(model, "", "", "mean"))
    alone = encoder.queries(["moon"])[0]
    padded = encoder.queries(["moon", "star far near the sun shines"])[0]
    assert padded == pytest.approx(alone, abs=1e-5)
    assert np.linalg.norm(alone) == pytest.approx(1.0)
    tokens = encoder._tokenizer(["moon"], return_tensors="pt")
    with torch.inference_mode():
        states = encoder._model(**tokens).last_hidden_state[0]
    mean = states.mean(0) / states.mean(0).norm()
    assert alone == pytest.approx(mean.numpy(), abs=1e-5)


def test_cls_takes_the_first_token(model):
    encoder = dense.Encoder(dense.encoding(model, "", "", "cls"))
    tokens = encoder._tokenizer(["moon far"], return_tensors="pt")
    with torch.inference_mode():
        first = encoder._model(**tokens).last_hidden_state[0, 0]
    assert encoder.queries(["moon far"])[0] == pytest.approx(
        (first / first.norm()).numpy(), abs=1e-5
    )


def test_prefixes_stand_before_queries_and_passages(model):
    with_prefix = dense.Encoder(dense.encoding(model, "query: ", "passage: ", None))
    without = dense.Encoder(dense.encoding(model, "", "", None))
    query, passage = without.queries(["query: moon"]), without.passages(["passage: moon"])
    assert with_prefix.queries(["moon"]) == pytest.approx(query)
    assert with_prefix.passages(["moon"]) == pytest.approx(passage)


def folder_with(tmp_path, name="encoder", **files) -> str:
    path = tmp_path / name
    (path / "1_Pooling").mkdir(parents=True)
    (path / "config.json").write_text("{}")
    for file, value in files.items():
        place = {"pooling": "1_Pooling/config.json"}.get(file, f"config_{file}.json")
        (path / place).write_text(json.dumps(value))
    return str(path)


@pytest.mark.parametrize(
    ("name", "files", "expected"),
    [
        ("e5-base-v2", {}, ("query: ", "passage: ", "mean")),
        ("minilm", {"pooling": {"pooling_mode_mean_tokens": True}}, ("", "", "mean")),
        ("bge", {"pooling": {"pooling_mode_cls_token": True}}, ("", "", "cls")),
        (
            "own",
            {"sentence_transformers": {"prompts": {"query": "q: ", "document": "d: "}}},
            ("q: ", "d: ", "mean"),
        ),
    ],
)
def test_the_folder_says_how_it_encodes(tmp_path, name, files, expected):
    found = dense.encoding(folder_with(tmp_path, name, **files), None, None, None)
    assert (found.query_prefix, found.passage_prefix, found.pooling) == expected


def test_what_is_no_encoder_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"no config\.json"):
        dense.encoding(str(tmp_path), None, None, None)
    with pytest.raises(InputError, match="no encoder"):
        dense.Encoder(dense.encoding(folder_with(tmp_path), None, None, None))


def test_an_index_knows_its_encoder(tmp_path, model):
    index(tmp_path, model, rows(*TEXTS))
    other = folder_with(tmp_path, "other")
    with pytest.raises(InputError, match="other weights"):
        dense.Dense(tmp_path / "idx", other)
    meta = folder.read_meta(tmp_path / "idx")
    meta["encoding"]["model"] = str(tmp_path / "gone")
    folder.write_meta(tmp_path / "idx", meta)
    with pytest.raises(InputError, match="--search-model"):
        dense.Dense(tmp_path / "idx")
    assert len(dense.Dense(tmp_path / "idx", model)) == 5


def test_an_interrupted_index_keeps_its_vectors(tmp_path, model, monkeypatch):
    monkeypatch.setattr(dense, "CHUNK", 2)
    path = write(tmp_path / "c.jsonl", rows(*TEXTS))
    settings = dense.encoding(model, None, None, None)

    def torn():
        for number, passage in enumerate(corpus.read(path)):
            if number == 4:
                raise KeyboardInterrupt
            yield passage

    done: list[int] = []
    with (
        pytest.raises(KeyboardInterrupt),
        folder.building(tmp_path / "idx", resume=False) as part,
    ):
        dense.build(part, path, torn(), done.append, settings)
    assert done == [2, 4]
    vectors = folder.part_of(tmp_path / "idx") / "vectors.f4"
    vectors.write_bytes(bytes(vectors.stat().st_size))  # Zeros: seen again if they are kept.
    indexing.make(path, tmp_path / "idx", "dense", resume=True, settings=settings)
    found = dense.Dense(tmp_path / "idx").search([TEXTS[4]], 5)[0]
    assert [hit.passage.id for hit in found] == ["p4", "p0", "p1", "p2", "p3"]
    assert [hit.score for hit in found] == pytest.approx([1.0, 0, 0, 0, 0], abs=1e-4)


def test_vectors_of_another_corpus_are_not_gone_on_with(tmp_path, model, monkeypatch):
    monkeypatch.setattr(dense, "CHUNK", 2)
    path = write(tmp_path / "c.jsonl", rows(*TEXTS))
    settings = dense.encoding(model, None, None, None)
    with pytest.raises(KeyError), folder.building(tmp_path / "idx", resume=False) as part:
        passages = (p if i < 4 else {}["stop"] for i, p in enumerate(corpus.read(path)))
        dense.build(part, path, passages, lambda done: None, settings)
    write(tmp_path / "c.jsonl", rows(*TEXTS[::-1]))
    with pytest.raises(folder.Stale):
        indexing.make(path, tmp_path / "idx", "dense", resume=True, settings=settings)


def test_a_dense_index_is_searched_by_its_folder_alone(tmp_path, model):
    index(tmp_path, model, rows(*TEXTS))
    backend = indexing.open_backend(str(tmp_path / "idx"))
    assert backend.name == "dense"


def test_a_corpus_file_without_a_dense_index_is_refused(tmp_path):
    path = write(tmp_path / "c.jsonl", rows(*TEXTS))
    with pytest.raises(InputError, match="tir index --backend dense"):
        indexing.open_backend(path, "dense")
