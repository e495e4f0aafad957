"""Passages as vectors: any encoder folder that transformers loads, and FAISS.

As e5 and sentence-transformers do it: a prefix for queries and one for passages, the mean of the
tokens (or the first one), length 1, inner product. Scores are compared at 5 decimals, since the
last bits differ between machines and batches.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from array import array
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tircli.records import InputError, MissingExtra
from tircli.tools.search import store
from tircli.tools.search.corpus import Passage
from tircli.tools.search.folder import Show, Stale, read_meta, write_meta
from tircli.tools.search.searcher import Hit

CHUNK = 1024
"""Passages that are encoded between two notes of progress."""
BATCH = 32
LINKS = 64
"""Neighbours of a passage in an HNSW graph, as in Search-R1's."""
DECIMALS = 5


@dataclass(frozen=True)
class Encoding:
    """How texts become vectors; queries must be treated as the passages were."""

    model: str
    """A folder."""
    query_prefix: str
    passage_prefix: str
    pooling: str
    """`mean` or `cls`."""
    max_tokens: int = 256
    """Search-R1's."""


def encoding(
    model: str, query_prefix: str | None, passage_prefix: str | None, pooling: str | None
) -> Encoding:
    """What the folder says, where nothing is given: its prompts, else e5's if it is an e5."""
    folder = Path(model)
    if not (folder / "config.json").is_file():
        raise InputError(f"--model {model}: no config.json; name the folder of an encoder")
    prompts = _json(folder / "config_sentence_transformers.json").get("prompts") or {}
    mode = _json(folder / "1_Pooling" / "config.json")
    e5 = "e5" in (folder.resolve().name + _json(folder / "config.json").get("_name_or_path", ""))
    if query_prefix is None:
        query_prefix = prompts.get("query", "query: " if e5 else "")
    if passage_prefix is None:
        known = prompts.get("passage", prompts.get("document"))
        passage_prefix = known if known is not None else "passage: " if e5 else ""
    if pooling is None:
        first = mode.get("pooling_mode_cls_token") or mode.get("pooling_mode") == "cls"
        pooling = "cls" if first else "mean"
    if pooling not in ("mean", "cls"):
        raise InputError(f'--pooling: "{pooling}"; choose mean or cls')
    return Encoding(str(folder.resolve()), query_prefix, passage_prefix, pooling)


def _json(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text("utf-8")) if path.is_file() else {}


class Encoder:
    """Texts to vectors of length 1. Raises MissingExtra, InputError."""

    def __init__(self, settings: Encoding) -> None:
        try:
            import torch
            from transformers import AutoModel, AutoTokenizer
        except ModuleNotFoundError as error:
            raise MissingExtra(f"dense: needs {error.name}; pip install 'tircli[dense]'") from None
        self.settings, self._torch = settings, torch
        try:
            self._tokenizer = AutoTokenizer.from_pretrained(settings.model, local_files_only=True)
            model = AutoModel.from_pretrained(
                settings.model, local_files_only=True, dtype=torch.float32
            )
        except (OSError, ValueError) as error:
            first = str(error).splitlines()[0]
            raise InputError(f"{settings.model}: no encoder ({first}); check the folder") from None
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        self._model = model.to(self._device).eval()
        self.size = int(model.config.hidden_size)

    def queries(self, texts: list[str]) -> np.ndarray:
        """(B, size) float32."""
        return self._encode([self.settings.query_prefix + text for text in texts])

    def passages(self, texts: list[str]) -> np.ndarray:
        """(B, size) float32."""
        return self._encode([self.settings.passage_prefix + text for text in texts])

    def _encode(self, texts: list[str]) -> np.ndarray:
        torch = self._torch
        parts = []
        for start in range(0, len(texts), BATCH):
            tokens = self._tokenizer(
                texts[start : start + BATCH],
                padding=True,
                truncation=True,
                max_length=self.settings.max_tokens,
                return_tensors="pt",
            ).to(self._device)
            with torch.inference_mode():
                states = self._model(**tokens).last_hidden_state  # (B, T, size)
            if self.settings.pooling == "cls":
                pooled = states[:, 0]
            else:
                mask = tokens["attention_mask"][..., None].to(states.dtype)  # (B, T, 1)
                pooled = (states * mask).sum(1) / mask.sum(1).clamp(min=1)
            parts.append(torch.nn.functional.normalize(pooled, dim=-1).cpu().numpy())
        vectors: np.ndarray = np.concatenate(parts).astype("<f4")
        return vectors


def weights_digest(model: str) -> str:
    """What names an encoder: its configuration and weights."""
    digest = hashlib.sha256()
    kinds = ("config.json", "tokenizer.json", "vocab.txt", "*.safetensors", "pytorch_model*.bin")
    for path in sorted({path for kind in kinds for path in Path(model).glob(kind)}):
        with open(path, "rb") as stream:
            while data := stream.read(1 << 20):
                digest.update(data)
    return digest.hexdigest()


def faiss_module() -> Any:
    """The package faiss. Raises MissingExtra."""
    try:
        import faiss
    except ModuleNotFoundError:
        raise MissingExtra("dense: needs faiss; pip install 'tircli[dense]'") from None
    return faiss


def build(
    part: Path,
    source: str,
    passages: Iterator[Passage],
    show: Show,
    settings: Encoding,
    hnsw: bool = False,
) -> None:
    """Index `passages` in the folder `part`; vectors of an earlier run are kept."""
    faiss, encoder = faiss_module(), Encoder(settings)
    made = asdict(settings) | {"weights": weights_digest(settings.model)}
    rows, corpus_digest = _encode_all(part, source, passages, show, encoder, made)
    if hnsw:
        index = faiss.IndexHNSWFlat(encoder.size, LINKS, faiss.METRIC_INNER_PRODUCT)
    else:
        index = faiss.IndexFlatIP(encoder.size)
    vectors = np.memmap(part / "vectors.f4", "<f4", "r", shape=(rows, encoder.size))
    for start in range(0, rows, 1 << 16):
        index.add(np.ascontiguousarray(vectors[start : start + (1 << 16)]))
    faiss.write_index(index, str(part / "vectors.faiss"))
    kind = "hnsw" if hnsw else "exact"
    digest = hashlib.sha256(f"{corpus_digest} {kind} {made}".encode()).hexdigest()
    write_meta(
        part,
        {"backend": "dense", "digest": digest, "passages": rows, "kind": kind, "encoding": made},
    )
    (part / "vectors.f4").unlink()
    (part / "state.json").unlink()


def _encode_all(
    part: Path,
    source: str,
    passages: Iterator[Passage],
    show: Show,
    encoder: Encoder,
    made: dict[str, Any],
) -> tuple[int, str]:
    """Write passages and vectors; how many, and the digest of the corpus."""
    state = part / "state.json"
    before = json.loads(state.read_text("utf-8")) if state.exists() else {}
    done = before["rows"] if before.get("made") == made else 0
    digest, sizes, ids, rows = hashlib.sha256(), array("I", [0]), [], 0
    with (
        open(part / "passages.jsonl", "wb") as texts,
        open(part / "vectors.f4", "ab") as vectors,
    ):
        vectors.truncate(done * encoder.size * 4)
        while chunk := list(itertools.islice(passages, CHUNK)):
            for passage in chunk:
                text = store.line(passage)
                texts.write(text)
                digest.update(text)
                sizes.append(len(text))
                ids.append(passage.id.encode())
            rows += len(chunk)
            if rows > done:
                vectors.write(encoder.passages([p.contents for p in chunk]).tobytes())
                vectors.flush()
                os.fsync(vectors.fileno())
                _save(state, {"made": made, "rows": rows, "digest": digest.hexdigest()})
            elif rows == done and digest.hexdigest() != before["digest"]:
                raise Stale(f"{part}: begun with another {source}; add --overwrite to begin again")
            show(rows)
    if not rows:
        raise InputError(f"{source}: no passages; give a corpus with some")
    if rows < done:
        raise Stale(f"{part}: begun with a longer {source}; add --overwrite to begin again")
    np.save(part / "offsets.npy", np.cumsum(np.array(sizes), dtype="<u8"))
    store.write_ranks(part, [np.array(ids)], source)
    return rows, digest.hexdigest()


def _save(path: Path, state: dict[str, Any]) -> None:
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(json.dumps(state), "utf-8")
    os.replace(fresh, path)


class Dense:
    """Searches an index folder by meaning. Raises InputError, MissingExtra."""

    name = "dense"

    def __init__(self, folder: Path, model: str = "") -> None:
        meta = read_meta(folder)
        settings = dict(meta["encoding"])
        weights = settings.pop("weights")
        settings["model"] = model or settings["model"]
        if not Path(settings["model"]).is_dir():
            raise InputError(
                f"{folder}: its encoder {settings['model']} is gone; name it by --search-model"
            )
        if weights_digest(settings["model"]) != weights:
            raise InputError(
                f"{folder}: made with other weights than {settings['model']} has; "
                "make the index again"
            )
        faiss = faiss_module()
        self.digest: str = meta["digest"]
        self._encoder = Encoder(Encoding(**settings))
        self._store = store.Store(folder)
        # Mapped: 21 million vectors of e5-base take 64 GB.
        self._index = faiss.read_index(str(folder / "vectors.faiss"), faiss.IO_FLAG_MMAP_IFC)

    def __len__(self) -> int:
        return len(self._store)

    def search(self, queries: list[str], k: int) -> list[list[Hit]]:
        """The passages nearest to each query."""
        # Twice as many: ties beyond the k-th place go by id too.
        scores, numbers = self._index.search(
            self._encoder.queries(queries), min(2 * k, len(self._store))
        )
        hits = []
        for row, found in zip(np.round(scores, DECIMALS), numbers, strict=True):
            known = found >= 0
            best = self._store.best(found[known], row[known], k)
            hits.append([Hit(self._store.get(number), score) for number, score in best])
        return hits

    def close(self) -> None:
        """Close the files."""
        self._store.close()
