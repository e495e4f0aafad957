"""Makes and opens indexes: a folder, or a corpus file that is indexed at its first use."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tircli.records import InputError
from tircli.tools.search import corpus as corpora
from tircli.tools.search import store
from tircli.tools.search.folder import (
    Show,
    Stale,
    building,
    cached,
    read_meta,
    state_of,
    write_meta,
)
from tircli.tools.search.searcher import Backend, InThread, Local

INDEXED = ("bm25", "lucene", "dense")
BACKENDS = (*INDEXED, "http", "serper", "searxng", "fake")
Say = Callable[[str], None]


def make(
    corpus: str,
    target: Path,
    backend: str,
    *,
    resume: bool,
    show: Show = lambda done: None,
    **dense: Any,
) -> None:
    """Index the file `corpus` into the folder `target`, in place of what is there."""
    if backend not in INDEXED:
        raise InputError(f'--backend: "{backend}"; choose one of {", ".join(INDEXED)}')
    try:
        _make(corpus, target, backend, resume, show, dense)
    except OSError as error:
        raise InputError(
            f"{error.filename or target}: {error.strerror or error}; make room, or choose another"
        ) from None


def _make(
    corpus: str, target: Path, backend: str, resume: bool, show: Show, dense: dict[str, Any]
) -> None:
    seen = state_of(corpus)
    with building(target, resume=resume) as part:
        if part is None:
            return
        passages = corpora.read(corpus)
        if backend == "bm25":
            from tircli.tools.search.bm25_build import Builder

            Builder(part, corpus).run(passages, show)
        elif backend == "lucene":
            from tircli.tools.search import lucene

            lucene.build(part, corpus, passages, show)
        else:
            from tircli.tools.search.dense import build

            build(part, corpus, passages, show, **dense)
        if state_of(corpus) != seen:
            raise InputError(f"{corpus}: changed while it was read; run it again")
        write_meta(part, read_meta(part) | {"source": seen})


def open_local(folder: Path, model: str = "") -> Local:
    """The index in `folder`. Raises InputError."""
    backend = read_meta(folder)["backend"]
    if backend == "bm25":
        from tircli.tools.search.bm25 import BM25

        return BM25(folder)
    if backend == "lucene":
        from tircli.tools.search.lucene import Lucene

        return Lucene(str(folder))
    if backend == "dense":
        from tircli.tools.search.dense import Dense

        return Dense(folder, model)
    raise InputError(f'{folder}: an index of kind "{backend}", which this tir does not know')


def open_backend(
    corpus: str, backend: str = "", url: str = "", model: str = "", say: Say = lambda text: None
) -> Backend:
    """What the options name: an index, a corpus file, a server or an API. Raises InputError."""
    backend = backend or ("http" if url else "")
    if backend and backend not in BACKENDS:
        raise InputError(f'--search-backend: "{backend}"; choose one of {", ".join(BACKENDS)}')
    if backend in ("http", "serper", "searxng"):
        if corpus:
            raise InputError(f"--corpus: {backend} has its own; leave out one of the two")
        return _remote(backend, url)
    if url:
        raise InputError(f"--search-url: {backend} asks no server; leave out one of the two")
    if not corpus:
        raise InputError("search: no --corpus and no --search-url; name what is searched")
    if backend == "fake":
        from tircli.tools.search.fake import read

        return read(corpus)
    return InThread(_open(corpus, backend, model, say))


def _remote(backend: str, url: str) -> Backend:
    if backend == "http":
        from tircli.tools.search.http import Http

        if not url:
            raise InputError("--search-backend http: no --search-url; name the server's")
        return Http(url)
    from tircli.tools.search.web import SearXNG, Serper

    return Serper(url) if backend == "serper" else SearXNG(url)


def _open(corpus: str, backend: str, model: str, say: Say) -> Local:
    path = Path(corpus)
    if path.is_file():
        return _open_file(corpus, backend or "bm25", model, say)
    if (path / "meta.json").is_file():
        made = read_meta(path)["backend"]
        if backend and backend != made:
            raise InputError(f"{corpus}: an index for {made}, not for {backend}; leave it out")
        return open_local(path, model)
    if backend == "lucene" or list(path.glob("segments_*")):
        from tircli.tools.search.lucene import Lucene

        return Lucene(corpus)
    if path.is_dir():
        return open_local(path)  # Says what is wrong.
    raise InputError(f"{corpus}: no such file or index; check the path")


def _open_file(corpus: str, backend: str, model: str, say: Say) -> Local:
    """The index of a corpus file, made now if there is none or the file has changed."""
    if backend == "dense":
        raise InputError(f"{corpus}: make the index first: tir index --backend dense --model ...")
    target = cached(corpus, backend)
    if target.is_dir():
        meta, seen = read_meta(target), state_of(corpus)
        if meta.get("source") == seen:
            return open_local(target, model)
        if meta["digest"] == _digest(corpus):
            write_meta(target, meta | {"source": seen})
            return open_local(target, model)
        say(f"{corpus}: has changed; indexing it again")
    else:
        say(f"{corpus}: indexing it into {target}")
    try:
        make(corpus, target, backend, resume=True)
    except Stale:
        make(corpus, target, backend, resume=False)
    return open_local(target, model)


def _digest(corpus: str) -> str:
    """The digest that an index of `corpus` would have."""
    digest = hashlib.sha256()
    for passage in corpora.read(corpus):
        digest.update(store.line(passage))
    return digest.hexdigest()
