"""The body of `tir index`: a corpus file in, a folder that can be searched out."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tircli.records import InputError, Json
from tircli.tools.search.folder import part_of
from tircli.tools.search.indexing import INDEXED, make


def run(
    *,
    corpus: str,
    output: str,
    backend: str,
    model: str,
    query_prefix: str | None,
    passage_prefix: str | None,
    pooling: str | None,
    hnsw: bool,
    overwrite: bool,
    resume: bool,
    quiet: bool,
) -> int:
    """Exit code of `tir index`."""
    target = Path(output)
    if backend not in INDEXED:
        raise InputError(f'--backend: "{backend}"; choose one of {", ".join(INDEXED)}')
    if not output or output == "-":
        raise InputError("--output: an index is a folder; name one with -o")
    if target.exists():
        if not overwrite:
            raise InputError(f"{output}: exists; add --overwrite or choose another name")
        if not (target / "meta.json").is_file():
            raise InputError(f"{output}: no index, so it is not replaced; choose another name")
    if part_of(target).exists() and not (overwrite or resume):
        raise InputError(f"{part_of(target)}: an unfinished index; add --resume or --overwrite")
    options = _dense(backend, model, query_prefix, passage_prefix, pooling, hnsw)
    show = _Shown(quiet)
    make(corpus, target, backend, resume=resume, show=show, **options)
    show.end()
    return 0


def _dense(
    backend: str,
    model: str,
    query_prefix: str | None,
    passage_prefix: str | None,
    pooling: str | None,
    hnsw: bool,
) -> Json:
    """What only a dense index is made with."""
    given = {
        "--model": model,
        "--query-prefix": query_prefix,
        "--passage-prefix": passage_prefix,
        "--pooling": pooling,
        "--hnsw": hnsw,
    }
    if backend != "dense":
        for name, value in given.items():
            if value:
                raise InputError(f"{name}: for --backend dense only; leave it out")
        return {}
    if not model:
        raise InputError("--backend dense: no --model; name the folder of an encoder")
    from tircli.tools.search.dense import encoding

    return {"settings": encoding(model, query_prefix, passage_prefix, pooling), "hnsw": hnsw}


class _Shown:
    """Passages done, on stderr: live on a terminal, else a line every 30 seconds."""

    def __init__(self, quiet: bool) -> None:
        self._quiet, self._live = quiet, sys.stderr.isatty()
        self._start = self._shown = time.monotonic()
        self._done = 0

    def __call__(self, done: int) -> None:
        self._done = done
        if time.monotonic() - self._shown >= (0.2 if self._live else 30):
            self._write("" if self._live else "\n")

    def end(self) -> None:
        """The last line."""
        self._write("\n")

    def _write(self, end: str) -> None:
        if self._quiet:
            return
        self._shown = time.monotonic()
        rate = self._done / max(self._shown - self._start, 1e-9)
        start = "\r\x1b[K" if self._live else ""
        sys.stderr.write(f"{start}{self._done} passages, {rate:.0f}/s{end}")
        sys.stderr.flush()
