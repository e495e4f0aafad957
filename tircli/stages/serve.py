"""The body of `tir serve`: a search backend behind the protocols that others' code speaks."""

from __future__ import annotations

import threading

from tircli.records import InputError
from tircli.stages import say
from tircli.tools.search.cache import Cache
from tircli.tools.search.indexing import open_backend
from tircli.tools.search.searcher import Searcher
from tircli.tools.search.server import MAX_TOPK, SearchServer


def run(
    *,
    corpus: str,
    search_backend: str,
    search_url: str,
    search_model: str,
    search_cache: str,
    topk: int,
    host: str,
    port: int,
    quiet: bool,
) -> int:
    """Exit code of `tir serve`, which ends at SIGINT or SIGTERM."""
    if topk > MAX_TOPK:
        raise InputError(f"--topk: {topk}; write {MAX_TOPK} at most")
    backend = open_backend(corpus, search_backend, search_url, search_model, say)
    searcher = Searcher(backend, Cache(search_cache))
    try:
        server = SearchServer((host, port), searcher, topk)
    except (OSError, OverflowError) as error:
        raise InputError(f"{host}:{port}: {error}; choose another --port or --host") from None
    if not quiet:
        say(f"{backend.name} on http://{host}:{server.server_port}/retrieve (/search, /health)")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        thread.join()
    except KeyboardInterrupt:
        return 0
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    return 0
