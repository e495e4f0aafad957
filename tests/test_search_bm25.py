"""The embedded index: words, ranking against a naive oracle, ties, and how a folder is made."""

from __future__ import annotations

import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tircli.records import InputError
from tircli.tools.search import analysis, bm25_build, bm25_merge, corpus, folder, indexing
from tircli.tools.search.bm25 import BM25

PASSAGES = Path(__file__).parents[1] / "../shared/data/passages.jsonl"
QUERIES = PASSAGES.with_name("search_queries.jsonl")


def write(path: Path, rows: list[dict]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return str(path)


def rows(*texts: str) -> list[dict]:
    return [{"id": f"p{i}", "contents": text} for i, text in enumerate(texts)]


def index(tmp_path: Path, data: list[dict], name: str = "idx") -> BM25:
    indexing.make(write(tmp_path / f"{name}.jsonl", data), tmp_path / name, "bm25", resume=False)
    return BM25(tmp_path / name)


def found(searcher: BM25, query: str, k: int = 10) -> list[str]:
    return [hit.passage.id for hit in searcher.search([query], k)[0]]


def random_rows(count: int, seed: int) -> list[dict]:
    """Passages of words that are as unevenly spread as a language's."""
    rng = random.Random(seed)
    words = [f"w{i}x" for i in range(400)]
    weights = [1 / (i + 1) for i in range(400)]
    return rows(
        *(" ".join(rng.choices(words, weights, k=rng.randint(1, 90))) for _ in range(count))
    )


def naive(data: list[dict], query: str, k: int) -> list[tuple[str, float]]:
    """BM25 with k1 = 0.9, b = 0.4 and Lucene's length byte, passage by passage."""
    texts = {row["id"]: analysis.terms(row["contents"]) for row in data}
    average = sum(map(len, texts.values())) / sum(bool(terms) for terms in texts.values())
    scores = dict.fromkeys(texts, 0.0)
    for term in analysis.terms(query):
        df = sum(term in terms for terms in texts.values())
        idf = math.log(1 + (len(texts) - df + 0.5) / (df + 0.5))
        for identity, terms in texts.items():
            length = bm25_merge.decoded_length(bm25_merge.length_code(len(terms)))
            tf = terms.count(term)
            scores[identity] += idf * tf / (tf + 0.9 * (0.6 + 0.4 * length / average))
    best = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    return [(identity, score) for identity, score in best if score > 0][:k]


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("The Cats' cat's catS", ["cat", "cat", "cat"]),
        ("U.S.A. 3.14, 1,000 x:y a_b C++", ["u.s.a", "3.14", "1,000", "x:y", "a_b", "c"]),
        ("psychology possibly us", ["psycholog", "possibl", "us"]),
        ("東京 タワー", ["東", "京", "タワー"]),
        ("Привет МИР", ["привет", "мир"]),
        ("Café naïve İstanbul", ["café", "naïv", "istanbul"]),
        ("हिन्दी", ["हिन्दी"]),
        ("\0 __ ?!", []),
        ("b" * 300, ["b" * 255, "b" * 45]),
    ],
)
def test_words_are_those_of_lucene(text, terms):
    assert analysis.terms(text) == terms


@pytest.mark.parametrize(("length", "kept"), [(0, 0), (39, 39), (40, 40), (41, 40), (100, 96)])
def test_a_length_keeps_four_significant_bits(length, kept):
    assert bm25_merge.decoded_length(bm25_merge.length_code(length)) == kept


@pytest.mark.parametrize("length", [2**i + d for i in range(5, 31) for d in (0, 1)])
def test_a_long_length_loses_less_than_an_eighth(length):
    kept = bm25_merge.decoded_length(bm25_merge.length_code(length))
    assert length * 7 / 8 < kept <= length


def test_a_score_is_the_one_by_hand(tmp_path):
    # N = 2, df = 1, tf = 1, length 1, average 1.5: ln(1 + 1.5/1.5) / (1 + 0.9 (0.6 + 0.4/1.5))
    searcher = index(tmp_path, rows("moon", "sun sun"))
    hit = searcher.search(["moon"], 1)[0][0]
    assert hit.score == pytest.approx(math.log(2) / (1 + 0.9 * (0.6 + 0.4 / 1.5)))


@pytest.mark.parametrize("k", [1, 3, 10, 500])
def test_ranking_equals_the_naive_one(tmp_path, monkeypatch, k):
    monkeypatch.setattr(bm25_build, "SEGMENT", 70)
    monkeypatch.setattr(bm25_merge, "MERGE", 900)
    data = random_rows(300, seed=k)
    searcher, rng = index(tmp_path, data), random.Random(k)
    for _ in range(12):
        query = " ".join(f"w{int(rng.paretovariate(0.4)) % 420}x" for _ in range(rng.randint(1, 8)))
        hits = searcher.search([query], k)[0]
        expected = naive(data, query, k)
        assert [hit.score for hit in hits] == pytest.approx([s for _, s in expected], rel=1e-5)
        # Sums that differ in their last bits may change places; equal ones may not.
        assert {h.passage.id for h in hits if h.score > hits[-1].score * 1.0001} <= {
            identity for identity, _ in expected
        }


def test_a_word_said_twice_counts_twice(tmp_path):
    searcher = index(tmp_path, rows("moon", "sun"))
    once, twice = searcher.search(["moon", "moon moon"], 1)
    assert twice[0].score == pytest.approx(2 * once[0].score)


def test_ties_go_by_id_also_at_the_last_place(tmp_path):
    data = [{"id": i, "contents": "same words"} for i in ("b", "a10", "a2", "c", "a")]
    assert found(index(tmp_path, data), "same", 3) == ["a", "a10", "a2"]


def test_the_order_of_the_corpus_does_not_matter(tmp_path):
    data = random_rows(120, seed=1)
    one, two = index(tmp_path, data), index(tmp_path, data[::-1], "reversed")
    for query in ("w0x w1x w7x", "w3x", "w40x w2x"):
        assert found(one, query, 25) == found(two, query, 25)


@pytest.mark.parametrize("query", ["", "the of", "unknownword", "?!"])
def test_a_query_without_known_words_finds_nothing(tmp_path, query):
    assert found(index(tmp_path, rows("moon", "the of")), query) == []


def test_ten_thousand_words_and_other_scripts_are_searched(tmp_path):
    searcher = index(tmp_path, rows("moon", "東京タワー", "Война и мир"))
    assert found(searcher, "word " * 10_000 + "moon") == ["p0"]
    assert found(searcher, "東京") == ["p1"]
    assert found(searcher, "ВОЙНА") == ["p2"]


def test_one_search_leaves_no_scores_to_the_next(tmp_path):
    searcher = index(tmp_path, random_rows(200, seed=3))
    first = searcher.search(["w1x w2x", "w5x", "w1x w2x"], 10)
    assert first[0] == first[2]
    assert searcher.search(["w1x w2x"], 10)[0] == first[0]


@pytest.mark.parametrize(
    "row",
    [
        {"id": "a", "contents": '"Ada"\nA countess.'},
        {"id": "a", "title": "Ada", "text": "A countess."},
    ],
)
def test_a_title_is_found_and_told_apart(tmp_path, row):
    passage = index(tmp_path, [row]).search(["ada"], 1)[0][0].passage
    assert passage == ("a", "Ada", "A countess.")
    assert passage.contents == '"Ada"\nA countess.'


def test_dpr_tsv_is_a_corpus(tmp_path):
    path = tmp_path / "psgs.tsv"
    path.write_text('id\ttext\ttitle\n1\t"He said ""hello"" twice"\tGreeting\n', "utf-8")
    assert list(corpus.read(str(path))) == [("1", "Greeting", 'He said "hello" twice')]


def test_parquet_is_a_corpus(tmp_path):
    pytest.importorskip("pyarrow", reason="needs pyarrow")
    from pyarrow import Table, parquet

    parquet.write_table(Table.from_pylist([{"id": "1", "text": "t"}]), tmp_path / "c.parquet")
    assert list(corpus.read(str(tmp_path / "c.parquet"))) == [("1", None, "t")]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("[]", "no object"),
        ('{"contents": "x"}', '"id" is None'),
        ('{"id": "a"}', "no passage"),
        ('{"id": true, "contents": "x"}', '"id" is True'),
        ('{"id": "a", "title": 3, "text": "x"}', '"title" is 3'),
        ("nope", "not JSON"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, said):
    path = tmp_path / "c.jsonl"
    path.write_text('{"id": "ok", "contents": "x"}\n' + line + "\n")
    with pytest.raises(InputError, match=f"c.jsonl:2: .*{said}"):
        list(corpus.read(str(path)))


def test_two_passages_of_one_id_are_refused(tmp_path):
    data = [
        {"id": "a", "contents": "x"},
        {"id": "b", "contents": "y"},
        {"id": "a", "contents": "z"},
    ]
    with pytest.raises(InputError, match='id "a" is that of passages 1 and 3'):
        index(tmp_path, data)
    assert [path.name for path in tmp_path.iterdir()] == ["idx.jsonl"]


def test_a_corpus_without_passages_is_refused(tmp_path):
    with pytest.raises(InputError, match="no passages"):
        index(tmp_path, [])


def interrupted(passages, after: int):
    for number, passage in enumerate(passages):
        if number == after:
            raise KeyboardInterrupt
        yield passage


def bytes_of(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir() if file.name != "meta.json"}


def test_resumed_equals_uninterrupted_and_does_nothing_twice(tmp_path, monkeypatch):
    monkeypatch.setattr(bm25_build, "SEGMENT", 40)
    path = write(tmp_path / "c.jsonl", random_rows(150, seed=5))
    indexing.make(path, tmp_path / "whole", "bm25", resume=False)
    with (
        pytest.raises(KeyboardInterrupt),
        folder.building(tmp_path / "torn", resume=False) as part,
    ):
        bm25_build.Builder(part, path).run(interrupted(corpus.read(path), after=100))
    assert not (tmp_path / "torn").exists()
    before = (folder.part_of(tmp_path / "torn") / "segments/00000/docs.npy").stat().st_mtime_ns
    with folder.building(tmp_path / "torn", resume=True) as part:
        bm25_build.Builder(part, path).run(corpus.read(path))
        assert (part / "segments/00000/docs.npy").stat().st_mtime_ns == before
    assert bytes_of(tmp_path / "torn") == bytes_of(tmp_path / "whole")


@pytest.mark.parametrize("change", ["other", "shorter"])
def test_resuming_with_another_corpus_is_refused(tmp_path, monkeypatch, change):
    monkeypatch.setattr(bm25_build, "SEGMENT", 40)
    data = random_rows(150, seed=5)
    path = write(tmp_path / "c.jsonl", data)
    with (
        pytest.raises(KeyboardInterrupt),
        folder.building(tmp_path / "idx", resume=False) as part,
    ):
        bm25_build.Builder(part, path).run(interrupted(corpus.read(path), after=100))
    write(tmp_path / "c.jsonl", data[:40] if change == "shorter" else data[1:])
    with pytest.raises(folder.Stale, match="--overwrite"):
        indexing.make(path, tmp_path / "idx", "bm25", resume=True)


def test_a_corpus_file_is_indexed_once_and_again_when_it_changes(tmp_path):
    path, said = write(tmp_path / "c.jsonl", rows("moon")), []
    first = indexing.open_backend(path, say=said.append)
    again = indexing.open_backend(path, say=said.append)
    assert (first.digest, len(said)) == (again.digest, 1)
    write(tmp_path / "c.jsonl", rows("sun"))
    changed = indexing.open_backend(path, say=said.append)
    assert changed.digest != first.digest
    assert "has changed" in said[1]


def test_a_corpus_that_was_only_touched_is_not_indexed_again(tmp_path):
    path, said = write(tmp_path / "c.jsonl", rows("moon")), []
    indexing.open_backend(path, say=said.append)
    os.utime(path, ns=(1, 1))
    indexing.open_backend(path, say=said.append)
    indexing.open_backend(path, say=said.append)
    assert len(said) == 1


def test_beside_a_corpus_that_is_read_only_the_users_cache_is_used(tmp_path, monkeypatch):
    path = write(tmp_path / "c.jsonl", rows("moon"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(os, "access", lambda folder, mode: False)
    indexing.open_backend(path)
    assert folder.cached(path, "bm25").parent == tmp_path / "cache" / "tircli"
    assert folder.cached(path, "bm25").is_dir()


def test_two_processes_that_start_at_once_make_one_index(tmp_path):
    path = write(tmp_path / "c.jsonl", random_rows(3000, seed=2))
    code = (
        "import sys; from tircli.tools.search.indexing import open_backend;"
        "print(open_backend(sys.argv[1]).digest)"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    digests = {process.communicate(timeout=60)[0] for process in running}
    assert [process.returncode for process in running] == [0, 0, 0]
    assert len(digests) == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c.jsonl", "c.jsonl.tir-bm25"]


def test_killed_while_indexing_there_is_no_index_and_a_second_run_makes_it(tmp_path):
    path = write(tmp_path / "c.jsonl", random_rows(20_000, seed=2))
    code = "import sys; from tircli.tools.search.indexing import open_backend as o; o(sys.argv[1])"
    process = subprocess.Popen([sys.executable, "-c", code, path])
    target = folder.cached(path, "bm25")
    while not (folder.part_of(target) / "passages.jsonl").exists():
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=10)
    assert not target.exists()
    assert len(BM25(_made(path))) == 20_000


def _made(path: str) -> Path:
    indexing.open_backend(path)
    return folder.cached(path, "bm25")


@pytest.mark.parametrize(
    ("meta", "said"),
    [
        ("{", "damaged"),
        ('{"format": 99, "backend": "bm25"}', "format 99"),
        ('{"format": 1, "backend": "other"}', '"other"'),
    ],
)
def test_what_is_no_index_of_ours_is_refused(tmp_path, meta, said):
    (tmp_path / "meta.json").write_text(meta)
    with pytest.raises(InputError, match=said):
        indexing.open_backend(str(tmp_path))


@pytest.mark.parametrize("name", ["docs", "terms", "codes", "offsets", "ranks"])
def test_an_index_that_lost_bytes_is_refused(tmp_path, name):
    index(tmp_path, rows("moon", "sun and stars"))
    path = tmp_path / "idx" / f"{name}.npy"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(InputError, match="damaged"):
        BM25(tmp_path / "idx")


def test_an_open_index_holds_neither_passages_nor_postings_in_memory(tmp_path):
    searcher = index(tmp_path, random_rows(2000, seed=4))
    held = 0
    for value in [*vars(searcher).values(), searcher._store.offsets, searcher._store.ranks]:
        owner = value
        while isinstance(owner, np.ndarray) and owner.base is not None:
            owner = owner.base
        held += value.nbytes if isinstance(owner, np.ndarray) else 0
    # Four bytes a passage for the scores, and the table of weights; all else is mapped.
    assert held == 4 * 2000 + 4 * 65536


@pytest.mark.skipif(not PASSAGES.exists(), reason="needs ../shared/data/passages.jsonl")
def test_a_passage_is_found_by_its_own_words(tmp_path):
    indexing.make(str(PASSAGES), tmp_path / "idx", "bm25", resume=False)
    searcher = BM25(tmp_path / "idx")
    data = [row for row in corpus.read(str(PASSAGES)) if len(row.text) > 150]
    sample = random.Random(0).sample(data, 200)
    queries = [" ".join(passage.text.split()[3:13]) for passage in sample]
    hits = searcher.search(queries, 4)
    right = sum(
        any(hit.passage.text == passage.text for hit in found)
        for passage, found in zip(sample, hits, strict=True)
    )
    assert right >= 196
