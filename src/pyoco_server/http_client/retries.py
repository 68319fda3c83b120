"""When a request is sent again, and after which pause. Decides; does not send.

A request is sent again after 429, 502, 503 and 504, and after a broken connection, but only if that
cannot have a second effect: it reads, it may be repeated by its nature, or it carries an idempotency key.
A request that was refused with 429, or that never reached the gateway, had no effect and is always sent
again.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

import httpx

TOO_MANY_REQUESTS: Final = 429
UNAVAILABLE: Final = frozenset({502, 503, 504})


@dataclass(frozen=True, slots=True)
class RequestRetryPolicy:
    """How often and how long a client tries. `RequestRetryPolicy(tries_max=1)` never sends a request again.

    The pause doubles from `backoff_sec` up to `backoff_sec_max`, with jitter: between half of it and all
    of it. A longer `Retry-After` is honoured up to `retry_after_sec_max`; beyond it the error is raised
    at once. After `total_sec_max` there is no further try. `connect=False`: an address where nothing
    listens is an error at once.
    """

    tries_max: int = 5
    backoff_sec: float = 0.2
    backoff_sec_max: float = 5.0
    retry_after_sec_max: float = 30.0
    total_sec_max: float = 120.0
    connect: bool = True

    def backoff(self, tries: int) -> float:
        """The pause after this many failed tries, in seconds."""
        whole = min(self.backoff_sec_max, self.backoff_sec * 2.0 ** min(tries - 1, 30))
        return whole * random.uniform(0.5, 1.0)

    def pause_after_answer(self, response: httpx.Response, tries: int, *, repeatable: bool) -> float | None:
        """Seconds until the next try; None: this answer is final."""
        status = response.status_code
        if status != TOO_MANY_REQUESTS and not (status in UNAVAILABLE and repeatable):
            return None
        asked_sec = retry_after_sec(response)
        if tries >= self.tries_max or (asked_sec is not None and asked_sec > self.retry_after_sec_max):
            return None
        return max(asked_sec or 0.0, self.backoff(tries))

    def pause_after_error(self, error: httpx.TransportError, tries: int, *, repeatable: bool) -> float | None:
        """Seconds until the next try; None: the error is final."""
        if tries >= self.tries_max:
            return None
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            return self.backoff(tries) if self.connect else None
        return self.backoff(tries) if repeatable and is_transient(error) else None


def is_transient(error: httpx.TransportError) -> bool:
    """A broken or slow connection, not a mistake of this program such as an address without a protocol."""
    return isinstance(error, httpx.NetworkError | httpx.TimeoutException | httpx.RemoteProtocolError)


def retry_after_sec(response: httpx.Response) -> float | None:
    """`Retry-After` in seconds; it has either seconds or a date."""
    value = response.headers.get("retry-after", "")
    if value.isascii() and value.isdecimal():
        return float(value)
    try:
        instant = parsedate_to_datetime(value)
        sent_at = parsedate_to_datetime(response.headers["date"])
    except (KeyError, ValueError):
        return None
    instant, sent_at = (_aware(one) for one in (instant, sent_at))
    return max(0.0, (instant - sent_at).total_seconds())


def _aware(instant: datetime) -> datetime:
    return instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)
