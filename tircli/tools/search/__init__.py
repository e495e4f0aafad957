"""The search tool: a query becomes the passages that the model sees, in the protocol's form."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tircli import templates
from tircli.tools import ToolResult

if TYPE_CHECKING:
    from tircli.tools.search.corpus import Passage
    from tircli.tools.search.searcher import Hit, Searcher

MAX_QUERY = 4096  # ours
"""Characters of a query; a longer one is refused."""


@dataclass(frozen=True)
class View:
    """How a protocol shows search results to the model (SPEC 1.2)."""

    topk: int = 4
    limit: int = 1200
    """Characters of a passage, its title included."""
    marker: str = "..."
    """Stands where a passage was cut."""
    passage: str = "{{contents}}"
    """One passage: `{{rank}}` from 1, `{{title}}`, `{{text}}`, or `{{contents}}` (both, as the
    published corpora write them)."""
    untitled: str = "{{text}}"
    """One passage that has no title."""
    joiner: str = "\n\n"
    empty: str = "No results found."
    """Text where nothing was found."""


class BadQuery(ValueError):
    """A query that cannot be searched for; the message is for the model."""


def checked(query: str) -> str:
    """`query` with control characters and white space folded to single blanks. Raises BadQuery."""
    query = query.encode("utf-8", "replace").decode("utf-8")
    query = " ".join(re.sub(r"[\x00-\x1f\x7f-\x9f]", " ", query).split())
    if not query:
        raise BadQuery("the query is empty; write what to look for")
    if len(query) > MAX_QUERY:
        raise BadQuery(f"the query has {len(query)} characters; write {MAX_QUERY} at most")
    return query


def show(view: View, hits: list[Hit]) -> str:
    """The text that the model sees."""
    shown = [_passage(view, hit.passage, rank) for rank, hit in enumerate(hits, 1)]
    return view.joiner.join(shown) or view.empty


def _passage(view: View, passage: Passage, rank: int) -> str:
    room = view.limit - (len(passage.contents) - len(passage.text))
    if len(passage.text) > room:
        passage = passage._replace(text=passage.text[: max(room, 0)] + view.marker)
    return templates.fill(
        view.untitled if passage.title is None else view.passage,
        rank=str(rank),
        title=passage.title or "",
        text=passage.text,
        contents=passage.contents,
    )


class SearchTool:
    """Answers queries with passages; `topk` overrules the protocol's number of them."""

    name = "search"

    def __init__(self, searcher: Searcher, view: View, topk: int | None = None) -> None:
        self._searcher, self._view, self._topk = searcher, view, topk or view.topk

    @property
    def made(self) -> dict[str, str | int]:
        """What a record must say, so that its results can be found again."""
        backend = self._searcher.backend
        return {"backend": backend.name, "digest": backend.digest, "topk": self._topk}

    async def run(self, source: str, session: str | None = None) -> ToolResult:
        """The passages found for `source`. Raises ToolUnavailable."""
        start = time.monotonic()
        try:
            query = checked(source)
        except BadQuery as error:
            return ToolResult(f"Error: {error}.", "error")
        hits, queued = await self._searcher.find(query, self._topk)
        return ToolResult(
            show(self._view, hits),
            seconds=time.monotonic() - start - queued,
            queued=queued,
            extra={"found": [hit.passage.id for hit in hits]},
        )

    async def aclose(self) -> None:
        """Close the backend and the cache."""
        await self._searcher.aclose()


def from_options(
    view: View,
    *,
    corpus: str = "",
    search_backend: str = "",
    search_url: str = "",
    search_model: str = "",
    search_cache: str = "",
    topk: int | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> SearchTool:
    """The tool that the options of a command name. Raises InputError, MissingExtra."""
    from tircli.tools.search.cache import Cache
    from tircli.tools.search.indexing import open_backend
    from tircli.tools.search.searcher import Searcher

    backend = open_backend(corpus, search_backend, search_url, search_model, say)
    return SearchTool(Searcher(backend, Cache(search_cache)), view, topk)
