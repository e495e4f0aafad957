"""The search server: both protocols, bad requests, limits, and many clients at once."""

from __future__ import annotations

import asyncio
import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pytest

from tircli.records import ToolUnavailable
from tircli.tools.search import server as serving
from tircli.tools.search.fake import Fake
from tircli.tools.search.http import Client, Http
from tircli.tools.search.indexing import open_backend
from tircli.tools.search.searcher import Searcher
from tircli.tools.search.server import SearchServer

TIR = [sys.executable, "-c", "from tircli.cli import main; main()"]
ADA = '"Ada"\nA countess.'
ANSWERS = {"ada": [ADA, "Another.", "A third.", "A fourth."], "one": ["The only."]}
DOCUMENT = {"id": "ada/0", "contents": ADA}


@contextmanager
def running(backend=None, topk=3):
    """The address of a server on loopback."""
    server = SearchServer(("127.0.0.1", 0), Searcher(backend or Fake(ANSWERS)), topk)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def url():
    with running() as address:
        yield address


def post(address, path, body):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    reply = httpx.post(address + path, content=content, timeout=10)
    return reply.status_code, reply.json()


def test_retrieve_answers_as_search_r1_does(url):
    body = {"queries": ["ada", "nothing", "one"], "topk": 2, "return_scores": True}
    code, reply = post(url, "/retrieve", body)
    assert code == 200
    assert [len(found) for found in reply["result"]] == [2, 0, 1]
    assert reply["result"][0][0] == {"document": DOCUMENT, "score": None}


@pytest.mark.parametrize("queries", [["ada"], ["ada", "one"], ["ada", "one", "nothing"]])
def test_without_scores_the_shape_is_a_list_of_documents_for_each_query(url, queries):
    code, reply = post(url, "/retrieve", {"queries": queries, "topk": 1})
    assert (code, len(reply["result"])) == (200, len(queries))
    assert reply["result"][0] == [DOCUMENT]


@pytest.mark.parametrize("topk", [{}, {"topk": None}, {"topk": 0}])
def test_a_request_without_topk_gets_the_servers(url, topk):
    _, reply = post(url, "/retrieve", {"queries": ["ada"], **topk})
    assert len(reply["result"][0]) == 3


@pytest.mark.parametrize("queries", [[], [""], ["\0"], [" "]])
def test_no_query_and_an_empty_one_find_nothing(url, queries):
    assert post(url, "/retrieve", {"queries": queries}) == (200, {"result": [[] for _ in queries]})


def test_search_answers_as_et_agents_server_does(url):
    assert post(url, "/search", {"query": "ada", "top_n": 1}) == (200, [DOCUMENT])
    scored = post(url, "/search", {"query": "ada", "top_n": 1, "return_score": True})
    assert scored == (200, [[DOCUMENT], [None]])
    blank = post(url, "/search", {"query": "  "})
    assert blank == (400, {"detail": "Query content cannot be empty"})


def test_batch_search_answers_a_list_for_each_query(url):
    body = {"query": ["ada", "none"], "top_n": 1}
    assert post(url, "/batch_search", body) == (200, [[DOCUMENT], []])
    scored = post(url, "/batch_search", body | {"return_score": True})
    assert scored == (200, [[[DOCUMENT], []], [[None], []]])


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("/retrieve", {}, 422),
        ("/retrieve", {"queries": "ada"}, 422),
        ("/retrieve", {"query": ["ada"]}, 422),
        ("/retrieve", {"queries": [3]}, 422),
        ("/retrieve", {"queries": ["ada"], "topk": -1}, 422),
        ("/retrieve", {"queries": ["ada"], "topk": 101}, 422),
        ("/retrieve", {"queries": ["ada"], "topk": True}, 422),
        ("/retrieve", {"queries": ["ada"], "topk": "3"}, 422),
        ("/retrieve", {"queries": ["ada"], "return_scores": 1}, 422),
        ("/retrieve", {"queries": ["a"] * 1025}, 422),
        ("/retrieve", {"queries": ["word " * 10_000]}, 422),
        ("/retrieve", [], 422),
        ("/retrieve", b"{", 422),
        ("/retrieve", b"\xff", 422),
        ("/retrieve", b"", 422),
        ("/search", {"query": ["ada"]}, 422),
        ("/search", {"query": "ada", "top_n": 1000}, 422),
        ("/batch_search", {"query": "ada"}, 422),
        ("/other", {}, 404),
    ],
)
def test_a_bad_request_is_answered_with_its_fault(url, path, body, code):
    found, reply = post(url, path, body)
    assert (found, "detail" in reply) == (code, True)


def test_health_tells_what_is_served(url):
    reply = httpx.get(url + "/health").json()
    assert (reply["status"], reply["backend"]) == ("healthy", "fake")
    assert httpx.get(url + "/other").status_code == 404


def raw(address, data, wait=5.0):
    """The status line that `data` is answered with."""
    with socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), wait) as client:
        client.sendall(data)
        return client.makefile("rb").readline().decode()


def test_a_body_too_large_is_refused_before_it_is_read(url):
    head = f"POST /retrieve HTTP/1.1\r\nContent-Length: {serving.MAX_BODY + 1}\r\n\r\n"
    assert " 413 " in raw(url, head.encode())


@pytest.mark.parametrize("length", ["", "Content-Length: -1\r\n", "Content-Length: x\r\n"])
def test_a_body_of_unknown_length_is_refused(url, length):
    assert " 411 " in raw(url, f"POST /retrieve HTTP/1.1\r\n{length}\r\n".encode())


def test_what_is_no_http_is_refused(url):
    assert "Bad request" in raw(url, b"nonsense here now\r\n\r\n")


def test_a_connection_carries_many_requests(url):
    with httpx.Client(base_url=url) as client:
        codes = {client.post("/search", json={"query": "ada"}).status_code for _ in range(20)}
    assert codes == {200}


@pytest.mark.parametrize(("fault", "code"), [(ToolUnavailable("x"), 503), (ValueError("x"), 500)])
def test_a_fault_of_the_backend_is_an_error_and_the_server_lives(capsys, fault, code):
    with running(Fake(ANSWERS, faults=[fault])) as address:
        assert post(address, "/search", {"query": "ada"})[0] == code
        assert post(address, "/search", {"query": "ada"})[0] == 200
    assert ("ValueError" in capsys.readouterr().err) == (code == 500)


def corpus(tmp_path, count=200):
    path = tmp_path / "c.jsonl"
    with open(path, "w") as stream:
        for i in range(count):
            passage = {"id": f"p{i}", "contents": f'"Number {i}"\nword{i} of the same passage'}
            stream.write(json.dumps(passage) + "\n")
    return str(path)


def test_our_client_finds_through_our_server_what_the_index_finds(tmp_path):
    path = corpus(tmp_path)
    queries = ["word7", "passage number", "", "nothing known"]

    async def both(address):
        here = Searcher(open_backend(path))
        there = Searcher(Http(f"{address}/retrieve"))
        pairs = [(await here.search(q, 5), await there.search(q, 5)) for q in queries]
        await here.aclose()
        await there.aclose()
        return pairs

    with running(open_backend(path)) as address:
        for here, there in asyncio.run(both(address)):
            assert here == there


@pytest.mark.parametrize("form", ["/search", "/batch_search"])
def test_the_other_protocols_make_the_round_trip_too(tmp_path, form):
    async def ask(address):
        searcher = Searcher(Http(address + form))
        found = await searcher.search("word7", 3)
        await searcher.aclose()
        return found

    with running(open_backend(corpus(tmp_path))) as address:
        assert asyncio.run(ask(address))[0].passage == (
            "p7",
            "Number 7",
            "word7 of the same passage",
        )


def search_r1_client(address, query):
    """One search as Search-R1's own code does it: a blocking request, no retries."""
    host = address.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=30)
    body = json.dumps({"queries": [query], "topk": 3, "return_scores": True})
    connection.request("POST", "/retrieve", body, {"Content-Type": "application/json"})
    reply = json.loads(connection.getresponse().read())
    connection.close()
    return [item["document"]["contents"].split("\n")[0] for item in reply["result"][0]]


def test_64_clients_of_which_one_is_slow_all_get_their_own_answer(tmp_path):
    with running(open_backend(corpus(tmp_path))) as address:
        port = int(address.rpartition(":")[2])
        slow = socket.create_connection(("127.0.0.1", port))
        body = json.dumps({"queries": ["word5"], "topk": 1}).encode()
        slow.sendall(f"POST /retrieve HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode())
        slow.sendall(body[:10])
        with ThreadPoolExecutor(63) as pool:
            firsts = list(
                pool.map(lambda i: search_r1_client(address, f"word{i % 200}")[0], range(630))
            )
        slow.sendall(body[10:])
        late = http.client.HTTPResponse(slow)
        late.begin()
        assert json.loads(late.read())["result"][0][0]["id"] == "p5"
        slow.close()
    assert firsts == [f'"Number {i % 200}"' for i in range(630)]


def test_a_client_that_sends_nothing_is_let_go(monkeypatch):
    monkeypatch.setattr(serving.Handler, "timeout", 0.1)
    with running() as address:
        with socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), 5) as client:
            client.sendall(b"POST /retrieve HTTP/1.1\r\nContent-Length: 50\r\n\r\n{")
            assert client.recv(100) == b""
        assert post(address, "/search", {"query": "ada"})[0] == 200


def test_connections_beyond_the_limit_are_turned_away_and_later_ones_served(monkeypatch):
    monkeypatch.setattr(serving, "MAX_CONNECTIONS", 2)
    with running() as address:
        port = int(address.rpartition(":")[2])
        held = [socket.create_connection(("127.0.0.1", port)) for _ in range(2)]
        time.sleep(0.1)
        assert " 503 " in raw(address, b"")
        for client in held:
            client.close()
        time.sleep(0.1)
        assert post(address, "/search", {"query": "ada"})[0] == 200


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_serves_until_a_signal(tmp_path, number):
    command = [*TIR, "serve", "--corpus", corpus(tmp_path), "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    line = next(line for line in process.stderr if "http://" in line)
    address = line.split("/retrieve")[0].split(" on ")[1]
    assert search_r1_client(address, "word3") == ['"Number 3"']
    process.send_signal(number)
    _, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (0, "")


def test_a_port_in_use_is_said(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [*TIR, "serve", "--corpus", corpus(tmp_path), "--port", port]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "choose another --port" in done.stderr


def test_a_fault_of_our_server_is_unavailable_to_our_client():
    async def ask(address):
        searcher = Searcher(Http(f"{address}/retrieve", Client(())))
        try:
            return await searcher.search("ada", 1)
        finally:
            await searcher.aclose()

    with (
        running(Fake(ANSWERS, faults=[ToolUnavailable("index gone")])) as address,
        pytest.raises(ToolUnavailable, match="503"),
    ):
        asyncio.run(ask(address))
