"""The search tool: queries, how results are shown, batches, memory, faults."""

from __future__ import annotations

import asyncio
import json

import pytest

from tircli import protocols
from tircli.protocols import Call
from tircli.records import InputError, ToolUnavailable
from tircli.tools import search
from tircli.tools.search import SearchTool, View, checked, from_options, show
from tircli.tools.search.cache import IN_MEMORY, Cache
from tircli.tools.search.corpus import Passage
from tircli.tools.search.fake import Fake, read
from tircli.tools.search.searcher import Hit, InThread, Searcher

ADA = '"Ada"\nA countess.'


def run(tool: SearchTool, *queries: str):
    async def all_of_them():
        results = await asyncio.gather(*map(tool.run, queries), return_exceptions=True)
        await tool.aclose()
        return results

    return asyncio.run(all_of_them())


def closing(searcher: Searcher, work):
    async def then_close():
        try:
            return await work
        finally:
            await searcher.aclose()

    return asyncio.run(then_close())


def tool(backend: Fake, view: View | None = None, cache: Cache | None = None) -> SearchTool:
    return SearchTool(Searcher(backend, cache), view or View())


@pytest.mark.parametrize("query", ["", "  \n\t", "\0", "\0\x07 \x85"])
def test_a_blank_query_is_the_models_error_and_is_not_searched(query):
    backend = Fake({})
    (result,) = run(tool(backend), query)
    assert (result.status, backend.asked) == ("error", [])
    assert result.output == "Error: the query is empty; write what to look for."


def test_a_query_too_long_is_the_models_error_and_says_how_long():
    backend = Fake({})
    (result,) = run(tool(backend), "word " * 10_000)
    assert (result.status, backend.asked) == ("error", [])
    assert result.output == "Error: the query has 49999 characters; write 4096 at most."


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        (" who\n is\0it ", "who is it"),
        ("東京 タワー", "東京 タワー"),
        ("half \ud800 pair", "half ? pair"),
        ("x" * search.MAX_QUERY, "x" * search.MAX_QUERY),
    ],
)
def test_a_query_is_asked_for_without_its_control_characters(query, asked):
    assert checked(query) == asked


def test_no_result_is_an_answer_and_not_an_error():
    (result,) = run(tool(Fake({})), "nothing")
    assert (result.status, result.output) == ("ok", "No results found.")
    assert result.extra == {"found": []}


def test_the_record_names_the_passages_that_were_found():
    (result,) = run(tool(Fake({"q": [ADA, "x"]})), "q")
    assert result.extra == {"found": ["q/0", "q/1"]}


@pytest.mark.parametrize(
    ("protocol", "text"),
    [
        ("et", '"Ada"\nA countess.\n\nNo title.'),
        ("search-r1", 'Doc 1(Title: "Ada") A countess.\nDoc 2 No title.'),
        ("tools", 'Doc 1 (Title: "Ada")\nA countess.\n\nDoc 2\nNo title.'),
    ],
)
def test_a_protocol_shows_titles_in_its_own_way(protocol, text):
    hits = [Hit(Passage("a", "Ada", "A countess.")), Hit(Passage("b", None, "No title."))]
    assert show(protocols.load(protocol).search, hits) == text


@pytest.mark.parametrize(("protocol", "topk"), [("et", 4), ("search-r1", 3)])
def test_a_protocol_says_how_many_passages(protocol, topk):
    backend = Fake({"q": [str(i) for i in range(9)]})
    (result,) = run(tool(backend, protocols.load(protocol).search), "q")
    assert len(result.extra["found"]) == topk


def test_a_passage_is_cut_at_1200_characters_with_its_title():
    hit = Hit(Passage("a", "Ada", "x" * 1300))
    shown = show(View(), [hit])
    assert shown == '"Ada"\n' + "x" * (1200 - len('"Ada"\n')) + "..."
    assert show(View(), [Hit(Passage("a", None, "x" * 1200))]) == "x" * 1200


def test_a_passage_that_holds_placeholders_is_shown_as_it_is():
    assert show(View(), [Hit(Passage("a", None, "{{rank}} {{text}}"))]) == "{{rank}} {{text}}"


def test_what_waits_goes_in_one_batch_and_equal_queries_are_asked_once():
    backend = Fake({"a": ["1"], "b": ["2"]})
    results = run(tool(backend), "a", "b", "a", " a ")
    assert backend.asked == [["a", "b"]]
    assert [result.output for result in results] == ["1", "2", "1", "1"]


def test_the_time_in_the_queue_is_told_apart_from_the_search():
    class Slow(Fake):
        async def search(self, queries, k):
            await asyncio.sleep(0.1)
            return await super().search(queries, k)

    _, second = run(tool(Slow({}, batch=1)), "a", "b")
    assert second.queued > 0.09
    assert second.seconds > 0.09


def test_a_batch_is_no_larger_than_the_backend_takes():
    backend = Fake({}, batch=2)
    run(tool(backend), *"abcde")
    assert backend.asked == [["a", "b"], ["c", "d"], ["e"]]


def test_queries_for_different_numbers_of_passages_do_not_mix():
    backend = Fake({"a": ["1", "2", "3"]})
    searcher = Searcher(backend)

    async def ask():
        return await asyncio.gather(*(searcher.search("a", k) for k in (1, 3, 1)))

    assert [len(hits) for hits in closing(searcher, ask())] == [1, 3, 1]
    assert len(backend.asked) == 2


def test_what_was_found_is_not_asked_for_again_an_empty_answer_too():
    backend = Fake({"a": ["1"]})
    searcher = Searcher(backend)

    async def ask():
        return [await searcher.search(query, 3) for query in ("a", "none", "a", "none")]

    first, empty, again, still_empty = closing(searcher, ask())
    assert first == again and empty == still_empty == []
    assert backend.asked == [["a"], ["none"]]


def test_a_fault_reaches_all_who_wait_and_is_not_remembered():
    backend = Fake({"a": ["1"]}, faults=[ToolUnavailable("down")])
    searcher = Searcher(backend)

    async def ask():
        down = await asyncio.gather(
            searcher.search("a", 1), searcher.search("a", 1), return_exceptions=True
        )
        return down, await searcher.search("a", 1)

    down, up = closing(searcher, ask())
    assert [str(error) for error in down] == ["down", "down"]
    assert [hit.passage.text for hit in up] == ["1"]


def test_one_who_goes_away_does_not_take_the_answer_from_others():
    backend = Fake({"a": ["1"]})
    searcher = Searcher(backend)

    async def ask():
        leaving = asyncio.create_task(searcher.search("a", 1))
        staying = asyncio.create_task(searcher.search("a", 1))
        await asyncio.sleep(0)
        leaving.cancel()
        return await staying

    assert [hit.passage.text for hit in closing(searcher, ask())] == ["1"]


def test_closing_while_a_search_runs_ends_it():
    class Slow(Fake):
        async def search(self, queries, k):
            await asyncio.sleep(60)

    searcher = Searcher(Slow({}))

    async def ask():
        waiting = asyncio.create_task(searcher.search("a", 1))
        await asyncio.sleep(0.01)
        await searcher.aclose()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(asyncio.wait_for(ask(), 5))


def test_a_local_index_is_asked_in_one_thread_of_its_own():
    import threading

    seen = set()

    class Local:
        name = digest = "local"

        def search(self, queries, k):
            seen.add(threading.current_thread().name)
            return [[] for _ in queries]

        def close(self):
            seen.add(threading.current_thread().name)

    run(SearchTool(Searcher(InThread(Local())), View()), "a", "b")
    assert seen == {"search-local_0"}


def test_a_cache_file_outlives_the_run_and_tells_backends_digests_and_k_apart(tmp_path):
    hits = [Hit(Passage("a", None, "text"), 1.5)]
    cache = Cache(str(tmp_path / "new" / "cache.sqlite"))
    cache.put(("http", "d", "q", 3), hits)
    cache.put(("http", "d", "empty", 3), [])
    cache.close()
    again = Cache(str(tmp_path / "new" / "cache.sqlite"))
    assert again.get(("http", "d", "q", 3)) == [[["a", None, "text"], 1.5]]
    assert again.get(("http", "d", "empty", 3)) == []
    for other in (("web", "d", "q", 3), ("http", "e", "q", 3), ("http", "d", "q", 4)):
        assert again.get(other) is None
    again.close()


def test_queries_that_differ_in_punctuation_alone_are_two(tmp_path):
    cache = Cache()
    cache.put(("b", "d", "C++", 1), [])
    assert cache.get(("b", "d", "C", 1)) is None
    cache.close()


def test_memory_without_a_file_is_bounded():
    cache = Cache()
    for i in range(IN_MEMORY + 5):
        cache.put(("b", "d", str(i), 1), [])
    assert cache.get(("b", "d", "4", 1)) is None
    assert cache.get(("b", "d", "5", 1)) == []
    cache.close()


def test_a_cache_file_that_is_none_is_refused(tmp_path):
    (tmp_path / "c.sqlite").write_text("this is no data base, but a text of some length\n" * 9)
    with pytest.raises(InputError, match="no search cache"):
        Cache(str(tmp_path / "c.sqlite"))


def test_a_cache_in_a_place_that_is_none_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="no search cache"):
        Cache(str(tmp_path / "file" / "c.sqlite"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "no --corpus"),
        ({"search_backend": "magic", "corpus": "x"}, "choose one of bm25"),
        ({"search_backend": "http"}, "no --search-url"),
        ({"search_backend": "http", "corpus": "x"}, "leave out one of the two"),
        ({"search_backend": "bm25", "search_url": "http://x/retrieve"}, "leave out one"),
        ({"search_url": "http://x/other"}, "/retrieve, /search, /batch_search"),
        ({"corpus": "nowhere"}, "no such file or index"),
        ({"search_backend": "searxng"}, "no --search-url"),
        ({"search_backend": "serper"}, "SERPER_API_KEY"),
    ],
)
def test_options_that_name_nothing_to_search_are_refused(monkeypatch, options, said):
    monkeypatch.delenv("SERPER_API_KEY", raising=False)
    with pytest.raises(InputError, match=said):
        from_options(View(), **options)


def test_an_index_for_another_backend_is_refused(tmp_path):
    path = tmp_path / "c.jsonl"
    path.write_text('{"id": "a", "contents": "moon"}\n')
    asyncio.run(from_options(View(), corpus=str(path)).aclose())
    with pytest.raises(InputError, match="an index for bm25, not for lucene"):
        from_options(View(), corpus=f"{path}.tir-bm25", search_backend="lucene")


def test_a_scripted_backend_answers_from_a_file(tmp_path):
    path = tmp_path / "answers.jsonl"
    path.write_text(json.dumps({"query": "q", "passages": [ADA]}) + "\n")
    (result,) = run(from_options(View(), corpus=str(path), search_backend="fake"), "q")
    assert result.output == ADA
    path.write_text("[]\n")
    with pytest.raises(InputError, match="jsonl:1: write"):
        read(str(path))


def test_the_record_can_say_what_was_searched(tmp_path):
    path = tmp_path / "c.jsonl"
    path.write_text('{"id": "a", "contents": "moon"}\n')
    searching = from_options(View(), corpus=str(path), topk=7)
    made = searching.made
    asyncio.run(searching.aclose())
    assert (made["backend"], made["topk"], len(str(made["digest"]))) == ("bm25", 7, 64)


def test_a_tag_in_a_thought_is_no_search():
    text = "<think>Use <search> here?</think><search>height of Mount Arbel</search>"
    calls = protocols.load("search-r1").parse(text)
    assert [call.source for call in calls if isinstance(call, Call)] == ["height of Mount Arbel"]
