"""Search servers of others: Search-R1's `/retrieve`, FlashRAG's and ET-Agent's `/search`.

A fault (no connection, time-out, 5xx, 429, a body that is empty or no JSON) is tried again with
growing pauses, then raised as ToolUnavailable: never shown to the model as "no results".
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Callable
from typing import Any

import httpx
import msgspec

from tircli.records import InputError, ToolUnavailable
from tircli.tools.search.corpus import Passage, titled
from tircli.tools.search.searcher import Found, Hit

SECONDS = 30.0
"""Of one request."""
PAUSES = (0.5, 1.0)
"""Seconds before each new try; the agent loop asks again after the last."""
WRONG_SETUP = (401, 403, 404, 405)
"""No query makes these go away: the run stops."""
PASSING = (408, 429)
FORMS = ("/retrieve", "/search", "/batch_search")


class Refused(ToolUnavailable):
    """The server refuses this request (4xx): asking again is no use."""


class Client:
    """Sends requests and tries again what may pass."""

    def __init__(self, pauses: tuple[float, ...] = PAUSES, seconds: float = SECONDS) -> None:
        self._pauses = pauses
        self._http = httpx.AsyncClient(timeout=seconds)

    async def ask(self, method: str, url: str, **request: Any) -> Any:
        """The JSON that `url` answers. Raises ToolUnavailable, or InputError for a wrong setup."""
        for pause in (*self._pauses, None):
            try:
                return self._read(url, await self._http.request(method, url, **request))
            except httpx.InvalidURL as error:
                raise InputError(f"--search-url {url}: {error}; check it") from None
            except httpx.UnsupportedProtocol:
                raise InputError(f"--search-url {url}: write http:// or https:// first") from None
            except httpx.HTTPError as error:
                fault = f"{url}: {type(error).__name__} {error}".rstrip()
            except _Fault as error:
                fault = f"{url}: {error}"
            if pause is None:
                raise ToolUnavailable(f"{fault}; {len(self._pauses) + 1} tries")
            await asyncio.sleep(pause)

    def _read(self, url: str, reply: httpx.Response) -> Any:
        code = reply.status_code
        if code in WRONG_SETUP:
            raise InputError(f"{url}: answers {code} {reply.reason_phrase}; check url and key")
        if code >= 500 or code in PASSING:
            raise _Fault(f"answers {code} {reply.reason_phrase}")
        if code >= 300:
            raise Refused(f"{url}: answers {code} {reply.reason_phrase}: {reply.text[:200]}")
        try:
            return msgspec.json.decode(reply.content)
        except (msgspec.DecodeError, UnicodeDecodeError):
            what = "no JSON" if reply.content.strip() else "an empty body"
            raise _Fault(f"answers {code} with {what}") from None

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()


class _Fault(Exception):
    """A reply that another try may heal."""


class Http:
    """Asks a server; the end of its url says which protocol it speaks. Raises InputError."""

    name = "http"
    parallel = 8

    def __init__(self, url: str, client: Client | None = None) -> None:
        self.digest = self._url = url.rstrip("/")
        forms: dict[str, tuple[int, Callable[..., Any]]] = {
            "/retrieve": (64, self._retrieve),
            "/batch_search": (64, self._batch_search),
            "/search": (1, self._one),
        }
        form = "/" + self._url.rpartition("/")[2]
        if form not in forms:
            raise InputError(
                f"--search-url {url}: end it with the protocol's name, one of {', '.join(FORMS)}"
            )
        self.batch, self._form = forms[form]
        self._client = client or Client()

    async def search(self, queries: list[str], k: int) -> list[Found]:
        """See Backend. One query that the server refuses does not take the others with it."""
        try:
            found = await self._form(queries, k)
        except Refused as error:
            if len(queries) == 1:
                return [error]
            return [(await self.search([query], k))[0] for query in queries]
        if not isinstance(found, list) or len(found) != len(queries):
            raise self._strange(found)
        return [self._hits(one)[:k] for one in found]

    async def aclose(self) -> None:
        """See Backend."""
        await self._client.aclose()

    async def _retrieve(self, queries: list[str], k: int) -> Any:
        # Without scores the published server fails, or answers in a wrong shape.
        body = {"queries": queries, "topk": k, "return_scores": True}
        reply = await self._client.ask("POST", self._url, json=body)
        return reply.get("result") if isinstance(reply, dict) else reply

    async def _batch_search(self, queries: list[str], k: int) -> Any:
        body = {"query": queries, "top_n": k}
        return await self._client.ask("POST", self._url, json=body)

    async def _one(self, queries: list[str], k: int) -> Any:
        body = {"query": queries[0], "top_n": k}
        return [await self._client.ask("POST", self._url, json=body)]

    def _hits(self, found: Any) -> list[Hit]:
        if not isinstance(found, list):
            raise self._strange(found)
        return [self._hit(entry) for entry in found]

    def _hit(self, entry: Any) -> Hit:
        """The hit in `{"document", "score"}` or in a bare document; it is an object or a text."""
        score, document = None, entry
        if isinstance(entry, dict) and "document" in entry:
            document, score = entry["document"], entry.get("score")
        if isinstance(document, str):
            passage = titled("", document)
        elif isinstance(document, dict) and isinstance(document.get("contents"), str):
            passage = titled("", document["contents"])
        elif isinstance(document, dict) and isinstance(document.get("text"), str):
            title = document.get("title")
            passage = Passage("", title if isinstance(title, str) else None, document["text"])
        else:
            raise self._strange(entry)
        identity = document.get("id") if isinstance(document, dict) else None
        if identity in (None, ""):
            identity = hashlib.sha256(passage.contents.encode()).hexdigest()[:16]
        if not isinstance(score, (int, float)) or not math.isfinite(score):
            score = None
        return Hit(passage._replace(id=str(identity)), score)

    def _strange(self, found: Any) -> ToolUnavailable:
        return ToolUnavailable(f"{self._url}: not the form of its protocol: {found!r:.100}")
