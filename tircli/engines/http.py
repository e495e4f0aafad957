"""What a request may cost, and what its failure means; without any state."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import NoReturn

import httpx
import msgspec

from tircli.records import EngineError, TurnError

_PAUSE = 30.0
"""Longest pause between tries, in seconds."""


class Fault(Exception):
    """A try that may do better when repeated."""


class Down(Fault):
    """A server that cannot be reached."""


class Busy(Fault):
    """A server that asks to wait `seconds`."""

    def __init__(self, what: str, seconds: float | None) -> None:
        super().__init__(what)
        self.seconds = seconds


class TooLong(TurnError):
    """The prompt with its completion does not fit the model."""


@dataclass(frozen=True)
class Patience:
    """How long to wait, and how often to try."""

    connect_seconds: float = 10.0
    first_byte_seconds: float = 900.0
    """Silence that is waited through; a reply comes at once when the turn is whole."""
    total_seconds: float = 1800.0
    """One try, from its start to the last byte."""
    tries: int = 6
    pause_seconds: float = 0.5
    """Before the second try; doubled for each further one, times 0.5 to 1.5."""
    health_seconds: float = 10.0
    """Between looks at a server that has work and finishes none of it."""
    down_seconds: float = 300.0
    """Without any server for so long, the run ends."""
    busy_seconds: float = 3600.0
    """A turn waits so long for servers that say they are busy (429)."""

    def pause(self, tries: int) -> float:
        """Seconds before the next try, after `tries` of them."""
        longest: float = min(self.pause_seconds * 2 ** (tries - 1), _PAUSE)
        return longest * (0.5 + random.random())


def shown(url: str) -> str:
    """`url` without a password that may stand in it."""
    parsed = httpx.URL(url)
    return str(parsed.copy_with(username="", password="")) if parsed.userinfo else url


def reason(response: httpx.Response, secret: str = "") -> str:
    """Status and message of a refusal, in one line, without `secret`."""
    text = response.text
    try:
        body = msgspec.json.decode(response.content)
        error = body.get("error", body) if isinstance(body, dict) else body
        text = str(error.get("message", error) if isinstance(error, dict) else error)
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    text = " ".join(text.split())[:300]
    return f"{response.status_code} {text.replace(secret, '***') if secret else text}".strip()


def line_of(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".strip(": ")


def _retry_after(response: httpx.Response) -> float | None:
    """Seconds of a Retry-After header, given as a number or a date."""
    value = response.headers.get("retry-after")
    if value is None:
        return None
    try:
        return max(float(value), 0.0)
    except ValueError:
        pass
    try:
        return max(parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    except (ValueError, TypeError):
        return None


def refuse(url: str, response: httpx.Response, secret: str) -> NoReturn:
    """Raise what a status other than 200 means."""
    what, status, after = reason(response, secret), response.status_code, _retry_after(response)
    if status == 429 or (status == 503 and after is not None):
        raise Busy(what, after)
    if status >= 500 or status in (408, 409, 425):
        raise Fault(what)
    if status in (400, 413, 422):
        long = "context length" in what or "context_length" in response.text
        raise (TooLong if long else TurnError)(f"{url}: {what}")
    raise EngineError(f"{url}: {what}; check --base-url, --model and the API key")
