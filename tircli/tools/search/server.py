"""A search server for others' code: Search-R1's `/retrieve`, ET-Agent's `/search`, and health.

The standard library's threads carry it: a thread a connection waits at no cost, so that a slow
client holds up nobody. All searches go through one Searcher, which batches what waits.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from collections.abc import Coroutine
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar

import msgspec

from tircli.records import InputError, ToolUnavailable
from tircli.tools.search import BadQuery, checked
from tircli.tools.search.searcher import Hit, Searcher

MAX_BODY = 4 << 20
MAX_QUERIES = 1024
MAX_TOPK = 100
MAX_CONNECTIONS = 512
SECONDS = 30.0
"""A connection that neither sends nor takes a byte for so long is closed."""
T = TypeVar("T")


class Failure(Exception):
    """A request that is answered with an error."""

    def __init__(self, code: int, detail: Any) -> None:
        super().__init__(detail)
        self.code, self.detail = code, detail


class SearchServer(ThreadingHTTPServer):
    """Serves `searcher`; `topk` where a request names none. Port 0 takes a free one."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, address: tuple[str, int], searcher: Searcher, topk: int) -> None:
        self.searcher, self.topk = searcher, topk
        self._free = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        super().__init__(address, Handler)  # Calls server_close where the port is taken.

    def search(self, queries: list[str], k: int) -> list[list[Hit]]:
        """The hits of each query, from the thread of any connection."""

        async def all_of_them() -> list[list[Hit]]:
            asked = (self.searcher.search(query, k) if query else _nothing() for query in queries)
            return list(await asyncio.gather(*asked))

        return self._await(all_of_them())

    def process_request(self, request: Any, client_address: Any) -> None:
        """Take a connection, or turn it away while there are too many."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
            return
        request.settimeout(1)
        request.sendall(b"HTTP/1.1 503 Busy\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection to its end."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no news; anything else is."""
        if not isinstance(sys.exc_info()[1], (ConnectionError, TimeoutError)):
            sys.stderr.write(traceback.format_exc())

    def server_close(self) -> None:
        """Take no more, and close the index."""
        super().server_close()
        self._await(self.searcher.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _await(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


async def _nothing() -> list[Hit]:
    return []


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: SearchServer
    protocol_version = "HTTP/1.1"
    server_version = "tir"
    timeout = SECONDS
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_GET(self) -> None:
        """Health."""
        if self.path.partition("?")[0] != "/health":
            self._answer(404, {"detail": "Not Found"})
            return
        backend = self.server.searcher.backend
        self._answer(
            200,
            {
                "status": "healthy",
                "retrievers": {"total": backend.parallel, "available": backend.parallel},
                "backend": backend.name,
                "digest": backend.digest,
            },
        )

    def do_POST(self) -> None:
        """A search."""
        try:
            body = self._body()
            routes = {"/retrieve": _retrieve, "/search": _search, "/batch_search": _batch_search}
            route = routes.get(self.path.partition("?")[0].rstrip("/"))
            if route is None:
                raise Failure(404, "Not Found")
            self._answer(200, route(self.server, body))
        except Failure as failure:
            self._answer(failure.code, {"detail": failure.detail})
        except ToolUnavailable as error:
            self._answer(503, {"detail": str(error)})
        except (ConnectionError, TimeoutError):
            raise
        except Exception as error:
            sys.stderr.write(f"{error}\n" if isinstance(error, InputError) else _trace())
            self._answer(500, {"detail": "Internal Server Error"})

    def _body(self) -> dict[str, Any]:
        length = self.headers.get("Content-Length", "")
        if not length.isdigit():
            self.close_connection = True
            raise Failure(411, "Content-Length is missing")
        if int(length) > MAX_BODY:
            self.close_connection = True
            raise Failure(413, f"the body has {length} bytes; send {MAX_BODY} at most")
        data = self.rfile.read(int(length))
        try:
            body = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _invalid("json_invalid", [], f"JSON decode error: {error}") from None
        if not isinstance(body, dict):
            raise _invalid("dict_type", [], "Input should be an object")
        return body

    def _answer(self, code: int, value: Any) -> None:
        data = msgspec.json.encode(value)
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the library refuses by itself, in our form."""
        self.close_connection = True
        self._answer(code, {"detail": message or self.responses.get(code, ("",))[0]})

    def log_message(self, format: str, *values: Any) -> None:
        """Requests are not logged: queries are the users' own."""


def _trace() -> str:
    return traceback.format_exc()


def _invalid(kind: str, where: list[str], message: str, value: Any = None) -> Failure:
    """A 422 in FastAPI's form, which the published servers answer with."""
    return Failure(422, [{"type": kind, "loc": ["body", *where], "msg": message, "input": value}])


def _query(value: Any, *where: str) -> str:
    """The query to search for; empty if it holds nothing."""
    if not isinstance(value, str):
        raise _invalid("string_type", [*where], "Input should be a valid string", value)
    if not value.strip("\0 \t\r\n"):
        return ""
    try:
        return checked(value)
    except BadQuery as error:
        raise _invalid("query", [*where], str(error)) from None


def _queries(value: Any, where: str) -> list[str]:
    if not isinstance(value, list):
        raise _invalid("list_type", [where], "Input should be a valid list", value)
    if len(value) > MAX_QUERIES:
        raise _invalid("too_long", [where], f"{len(value)} queries; send {MAX_QUERIES} at most")
    return [_query(query, where, str(i)) for i, query in enumerate(value)]


def _count(value: Any, where: str, default: int) -> int:
    """The number of passages; absent, null and 0 are `default`, as in Search-R1's server."""
    if value is None or value == 0:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= MAX_TOPK:
        raise _invalid("int_range", [where], f"Input should be from 1 to {MAX_TOPK}", value)
    return value


def _flag(body: dict[str, Any], name: str) -> bool:
    value = body.get(name, False)
    if not isinstance(value, bool):
        raise _invalid("bool_type", [name], "Input should be a valid boolean", value)
    return value


def _document(hit: Hit) -> dict[str, str]:
    return {"id": hit.passage.id, "contents": hit.passage.contents}


def _retrieve(server: SearchServer, body: dict[str, Any]) -> Any:
    """Search-R1: `{"queries", "topk", "return_scores"}`."""
    queries = _queries(body.get("queries"), "queries")
    k, scores = _count(body.get("topk"), "topk", server.topk), _flag(body, "return_scores")
    found = server.search(queries, k)
    if not scores:
        return {"result": [[_document(hit) for hit in hits] for hits in found]}
    scored = [[{"document": _document(hit), "score": hit.score} for hit in hits] for hits in found]
    return {"result": scored}


def _search(server: SearchServer, body: dict[str, Any]) -> Any:
    """ET-Agent, ARPO, FlashRAG: `{"query", "top_n", "return_score"}`."""
    query = _query(body.get("query"), "query")
    if not query:
        raise Failure(400, "Query content cannot be empty")
    k, scores = _count(body.get("top_n"), "top_n", 10), _flag(body, "return_score")
    return _with_scores(server.search([query], k)[0], scores)


def _batch_search(server: SearchServer, body: dict[str, Any]) -> Any:
    """The same for a list of queries; with scores, one list of passages and one of scores."""
    queries = _queries(body.get("query"), "query")
    k, scores = _count(body.get("top_n"), "top_n", 10), _flag(body, "return_score")
    found = [_with_scores(hits, scores) for hits in server.search(queries, k)]
    return [list(column) for column in zip(*found, strict=True)] if scores and found else found


def _with_scores(hits: list[Hit], scores: bool) -> Any:
    documents = [_document(hit) for hit in hits]
    return [documents, [hit.score for hit in hits]] if scores else documents
