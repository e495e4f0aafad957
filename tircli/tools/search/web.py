"""Search engines of the web, by Serper's API or a SearXNG of one's own."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from tircli.records import InputError, ToolUnavailable
from tircli.tools.search.corpus import Passage
from tircli.tools.search.http import Client
from tircli.tools.search.searcher import Found, Hit

SERPER = "https://google.serper.dev/search"
KEY = "SERPER_API_KEY"


class _Web:
    """Asks an API for one query at a time; `parallel` at once."""

    name = ""
    parallel, batch = 4, 1

    def __init__(self, url: str, client: Client | None = None) -> None:
        self.digest = self._url = url
        self._client = client or Client()

    async def search(self, queries: list[str], k: int) -> list[Found]:
        """See Backend."""
        return list(await asyncio.gather(*(self._search(query, k) for query in queries)))

    async def aclose(self) -> None:
        """See Backend."""
        await self._client.aclose()

    async def _search(self, query: str, k: int) -> list[Hit]:
        raise NotImplementedError

    def _hits(self, pages: Any, k: int, link: str, text: str) -> list[Hit]:
        """The first `k` pages with a text, each address once."""
        if not isinstance(pages, list):
            raise ToolUnavailable(f"{self._url}: not the form of its API: {pages!r:.100}")
        found: dict[str, Hit] = {}
        for page in pages:
            if isinstance(page, dict) and isinstance(page.get(text), str) and page.get(link):
                title = " ".join(str(page.get("title") or "").split())
                passage = Passage(str(page[link]), title or None, page[text])
                found.setdefault(passage.id, Hit(passage))
        return list(found.values())[:k]


class Serper(_Web):
    """Serper's API, or one of its form; the key is read from SERPER_API_KEY. Raises InputError."""

    name = "serper"

    def __init__(self, url: str = "", client: Client | None = None) -> None:
        super().__init__(url or SERPER, client)
        self._key = os.environ.get(KEY, "")
        if not self._key:
            raise InputError(f"--search-backend serper: no key; put it into the variable {KEY}")

    async def _search(self, query: str, k: int) -> list[Hit]:
        headers = {"X-API-KEY": self._key}
        body = {"q": query, "num": k}
        reply = await self._client.ask("POST", self._url, json=body, headers=headers)
        # An answer without pages leaves the list out.
        pages = reply.get("organic", []) if isinstance(reply, dict) else None
        return self._hits(pages, k, "link", "snippet")


class SearXNG(_Web):
    """A SearXNG instance; its settings must allow the format json. Raises InputError."""

    name = "searxng"

    def __init__(self, url: str, client: Client | None = None) -> None:
        if not url:
            raise InputError("--search-backend searxng: no --search-url; name http://host/search")
        super().__init__(url, client)

    async def _search(self, query: str, k: int) -> list[Hit]:
        request = {"q": query, "format": "json"}
        reply = await self._client.ask("GET", self._url, params=request)
        pages = reply.get("results") if isinstance(reply, dict) else None
        return self._hits(pages, k, "url", "content")
