"""Clients of search servers and web APIs, against servers on loopback that misbehave on order."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tircli.records import InputError, ToolUnavailable
from tircli.tools.search.http import Client, Http
from tircli.tools.search.searcher import Searcher
from tircli.tools.search.web import SearXNG, Serper

DOCUMENT = {"id": "7", "contents": '"Ada"\nA countess.'}
HIT = {"document": DOCUMENT, "score": 2.5}
QUICK = (0.001, 0.001)


@contextmanager
def server(*replies):
    """A server that answers with `replies` in turn, the last one for ever; yields url and requests.

    A reply is a JSON value, or (status, body); "hang" never answers, "cut" breaks off.
    """
    left, seen = list(replies), []

    class Handler(BaseHTTPRequestHandler):
        def answer(self):
            length = int(self.headers.get("Content-Length") or 0)
            seen.append((self.path, self.rfile.read(length), dict(self.headers)))
            reply = left.pop(0) if len(left) > 1 else left[0]
            if callable(reply):
                reply = reply(json.loads(seen[-1][1]))
            if reply == "hang":
                time.sleep(1)
                return
            if reply == "cut":
                self.send_response(200)
                self.send_header("Content-Length", "100")
                self.end_headers()
                self.wfile.write(b'{"res')
                return
            code, body = reply if isinstance(reply, tuple) else (200, json.dumps(reply).encode())
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = answer

        def log_message(self, *values):
            pass

    stub = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=stub.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{stub.server_port}", seen
    finally:
        stub.shutdown()
        thread.join()
        stub.server_close()


def ask(backend, *queries, k=3):
    async def then_close():
        try:
            return await backend.search(list(queries), k)
        finally:
            await backend.aclose()

    return asyncio.run(then_close())


def client(seconds=5.0):
    return Client(QUICK, seconds)


def test_the_search_r1_protocol_is_spoken_with_scores_always():
    with server({"result": [[HIT], []]}) as (url, seen):
        first, second = ask(Http(f"{url}/retrieve", client()), "one", "two")
    assert [(hit.passage, hit.score) for hit in first] == [(("7", "Ada", "A countess."), 2.5)]
    assert second == []
    assert json.loads(seen[0][1]) == {"queries": ["one", "two"], "topk": 3, "return_scores": True}


@pytest.mark.parametrize(
    ("form", "reply", "sent"),
    [
        ("/search", [DOCUMENT], {"query": "one", "top_n": 3}),
        ("/batch_search", [[DOCUMENT]], {"query": ["one"], "top_n": 3}),
    ],
)
def test_the_flashrag_protocols_are_spoken(form, reply, sent):
    with server(reply) as (url, seen):
        ((hit,),) = ask(Http(url + form, client()), "one")
    assert (hit.passage.id, hit.score) == ("7", None)
    assert json.loads(seen[0][1]) == sent


@pytest.mark.parametrize(
    ("entry", "passage"),
    [
        ({"document": '"Ada"\nA countess.', "score": 1}, ("Ada", "A countess.")),
        ({"document": {"contents": "No title."}}, (None, "No title.")),
        ({"document": {"title": "Ada", "text": "t", "contents": '"Ada"\nt'}}, ("Ada", "t")),
        ({"document": {"title": "Ada", "text": "t"}, "score": None}, ("Ada", "t")),
        ({"contents": "bare"}, (None, "bare")),
        ("a bare text", (None, "a bare text")),
    ],
)
def test_a_document_may_be_an_object_or_a_text_without_score_or_id(entry, passage):
    with server({"result": [[entry]]}) as (url, _):
        ((hit,),) = ask(Http(f"{url}/retrieve", client()), "q")
    assert (hit.passage.title, hit.passage.text) == passage
    assert len(hit.passage.id) == 16


def test_a_server_that_sends_more_than_was_asked_for_is_cut():
    with server({"result": [[HIT] * 9]}) as (url, _):
        assert len(ask(Http(f"{url}/retrieve", client()), "q", k=2)[0]) == 2


@pytest.mark.parametrize(
    "fault",
    [(500, b"Internal Server Error"), (503, b""), (429, b""), (200, b""), (200, b"{"), "cut"],
)
def test_a_fault_is_tried_again(fault):
    with server(fault, fault, {"result": [[HIT]]}) as (url, seen):
        ((hit,),) = ask(Http(f"{url}/retrieve", client()), "q")
    assert (hit.passage.id, len(seen)) == ("7", 3)


@pytest.mark.parametrize("fault", [(500, b""), (200, b""), "hang"])
def test_a_fault_that_stays_is_unavailable_never_no_results(fault):
    with server(fault) as (url, seen), pytest.raises(ToolUnavailable, match="3 tries"):
        ask(Http(f"{url}/retrieve", client(seconds=0.2)), "q")
    assert len(seen) == 3


def test_no_server_is_unavailable():
    with server([]) as (url, _):
        pass
    with pytest.raises(ToolUnavailable, match="ConnectError"):
        ask(Http(f"{url}/retrieve", client()), "q")


@pytest.mark.parametrize("code", [400, 413, 422])
def test_a_request_that_is_refused_is_not_tried_again(code):
    with server((code, b"no")) as (url, seen):
        (refused,) = ask(Http(f"{url}/retrieve", client()), "q")
    assert isinstance(refused, ToolUnavailable)
    assert (f"answers {code}" in str(refused), len(seen)) == (True, 1)


@pytest.mark.parametrize("code", [401, 403, 404, 405])
def test_a_wrong_address_or_key_ends_the_run(code):
    with server((code, b"")) as (url, _), pytest.raises(InputError, match="check url and key"):
        ask(Http(f"{url}/retrieve", client()), "q")


def test_one_query_that_is_refused_does_not_take_the_others_with_it():
    def picky(body):
        bad = "bad" in body["queries"]
        return (422, b"no") if bad else {"result": [[HIT] for _ in body["queries"]]}

    async def each():
        searcher = Searcher(Http(f"{url}/retrieve", client()))
        asked = (searcher.search(query, 3) for query in ("a", "bad", "b"))
        found = await asyncio.gather(*asked, return_exceptions=True)
        await searcher.aclose()
        return found

    with server(picky) as (url, _):
        first, bad, last = asyncio.run(each())
    assert (len(first), type(bad).__name__, len(last)) == (1, "Refused", 1)


@pytest.mark.parametrize(
    "reply", [{}, [], {"result": None}, {"result": [[], []]}, {"result": [[3]]}, {"result": ["x"]}]
)
def test_a_reply_in_another_form_is_unavailable(reply):
    with server(reply) as (url, _), pytest.raises(ToolUnavailable, match="not the form"):
        ask(Http(f"{url}/retrieve", client()), "q")


def test_faults_are_not_remembered_and_an_empty_answer_is():
    """500, a time-out and an empty body are faults; an empty list is an answer."""
    faults = [(500, b""), "hang", (200, b"")]

    async def each():
        searcher = Searcher(Http(f"{url}/retrieve", Client((), 0.2)))
        said = []
        for _ in range(5):
            try:
                said.append(await searcher.search("q", 3))
            except ToolUnavailable:
                said.append("unavailable")
        await searcher.aclose()
        return said

    with server(*faults, {"result": [[]]}) as (url, seen):
        said = asyncio.run(each())
    assert said == ["unavailable"] * 3 + [[], []]
    assert len(seen) == 4


def test_what_waits_for_a_busy_server_goes_in_one_request():
    def slow(body):
        time.sleep(0.05)
        return {"result": [[HIT] for _ in body["queries"]]}

    async def each():
        backend = Http(f"{url}/retrieve", client())
        backend.parallel = 1
        searcher = Searcher(backend)
        first = asyncio.create_task(searcher.search("first", 3))
        await asyncio.sleep(0.02)
        await asyncio.gather(*(searcher.search(f"q{i}", 3) for i in range(30)))
        await first
        await searcher.aclose()

    with server(slow) as (url, seen):
        asyncio.run(each())
    assert [len(json.loads(body)["queries"]) for _, body, _ in seen] == [1, 30]


@pytest.mark.parametrize("url", ["127.0.0.1/retrieve", "ftp://x/search"])
def test_an_address_without_http_is_refused(url):
    with pytest.raises(InputError, match="http"):
        ask(Http(url, client()), "q")


PAGES = [
    {"title": "Ada\n L.", "link": "http://a", "snippet": "A countess."},
    {"title": "Ada again", "link": "http://a", "snippet": "The same page."},
    {"title": "no text", "link": "http://b"},
    {"link": "http://c", "snippet": "No title."},
]


def test_serper_is_asked_with_the_key_and_pages_come_once(monkeypatch):
    monkeypatch.setenv("SERPER_API_KEY", "secret-key")
    with server({"organic": PAGES}) as (url, seen):
        (hits,) = ask(Serper(f"{url}/search", client()), "who", k=5)
    assert [hit.passage for hit in hits] == [
        ("http://a", "Ada L.", "A countess."),
        ("http://c", None, "No title."),
    ]
    path, body, headers = seen[0]
    assert (path, json.loads(body)) == ("/search", {"q": "who", "num": 5})
    assert {key.lower(): value for key, value in headers.items()}["x-api-key"] == "secret-key"


def test_an_answer_without_pages_is_no_fault(monkeypatch):
    monkeypatch.setenv("SERPER_API_KEY", "k")
    with server({"searchParameters": {}}) as (url, _):
        assert ask(Serper(url, client()), "who") == [[]]


@pytest.mark.parametrize("fault", [(500, b"secret-key"), (403, b""), (400, b"bad"), "hang"])
def test_the_key_is_in_no_message(monkeypatch, fault):
    monkeypatch.setenv("SERPER_API_KEY", "top-secret-key")
    with server(fault) as (url, _), pytest.raises((ToolUnavailable, InputError)) as caught:
        ask(Serper(url, client(seconds=0.2)), "who")
    assert "secret" not in str(caught.value)


def test_searxng_is_asked_for_json():
    page = {"title": "Ada", "url": "http://a", "content": "A countess."}
    with server({"results": [page, {"url": "http://b", "content": None}]}) as (url, seen):
        (hits,) = ask(SearXNG(f"{url}/search", client()), "who & what")
    assert [hit.passage for hit in hits] == [("http://a", "Ada", "A countess.")]
    assert seen[0][0] == "/search?q=who+%26+what&format=json"


@pytest.mark.parametrize("reply", [{"error": "no json"}, ["x"], "text"])
def test_a_web_reply_in_another_form_is_unavailable(reply):
    with server(reply) as (url, _), pytest.raises(ToolUnavailable, match="not the form"):
        ask(SearXNG(f"{url}/search", client()), "who")
