"""What a call does, without doing it: a script yields steps, and a transport performs them.

Each call of the clients is one generator. It yields `Send`, `Pause`, `Open`, `NextLine` or `NextChunk`,
gets what came of it, and returns the answer. `blocking.py` performs the steps with `httpx.Client`,
`asynchronous.py` with `httpx.AsyncClient`; so every call, retry and reconnection is described once. A
stream also yields `Emit` for each item of its reader.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Generic, TypeAlias, TypeVar

import httpx

from pyoco_server.http_client.calls import Event, EventParser
from pyoco_server.http_client.retries import UNAVAILABLE, RequestRetryPolicy, is_transient

REQUEST_TIMEOUT_SEC = 30.0
NO_CONTENT = 204
TOO_MANY_REQUESTS = 429
# A stream that breaks is opened again at its position, at most this often without an event between.
RECONNECTS_MAX = 10

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request. `repeatable`: a second request has no second effect."""

    method: str
    path: str
    query: dict[str, object] = field(default_factory=dict)
    json: object = None
    content: bytes | None = None
    form: Mapping[str, object] | None = None
    files: Mapping[str, tuple[str, bytes | BinaryIO, str]] | None = None
    headers: dict[str, str] = field(default_factory=dict)
    timeout_sec: float = REQUEST_TIMEOUT_SEC
    repeatable: bool = True


@dataclass(frozen=True, slots=True)
class Send:
    """Answered with the response. A broken connection raises `httpx.TransportError` in the script."""

    request: ApiRequest


@dataclass(frozen=True, slots=True)
class Pause:
    """Answered with None after this many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Open:
    """Open a stream; closes the one before. Answered with its response, without the body unless it is an
    error.
    """

    request: ApiRequest


@dataclass(frozen=True, slots=True)
class NextLine:
    """Answered with the next line of the open stream, or None at its end."""


@dataclass(frozen=True, slots=True)
class NextChunk:
    """Answered with the next bytes of the open stream, or None at its end."""


@dataclass(frozen=True, slots=True)
class PolicyOf:
    """Answered with the `RequestRetryPolicy` of the client."""


@dataclass(frozen=True, slots=True)
class Emit(Generic[T_co]):
    """An item for the reader of the stream. Answered with None."""

    item: T_co


Step: TypeAlias = Send | Pause | Open | NextLine | NextChunk | PolicyOf
Script: TypeAlias = Generator[Step, Any, T]
Stream: TypeAlias = Generator[Step | Emit[T], Any, None]


def send(request: ApiRequest, *, tries_max: int | None = None) -> Script[httpx.Response]:
    """The answer to a request, whatever its status is, after the retries that the policy allows."""
    policy: RequestRetryPolicy = yield PolicyOf()
    policy = policy if tries_max is None or policy.tries_max == 1 else _with_tries(policy, tries_max)
    give_up_at = time.monotonic() + policy.total_sec_max
    tries = 0
    while True:
        tries += 1
        try:
            response: httpx.Response = yield Send(request)
        except httpx.TransportError as error:
            pause_sec = policy.pause_after_error(error, tries, repeatable=request.repeatable)
            if pause_sec is None or time.monotonic() + pause_sec > give_up_at:
                raise
        else:
            pause_sec = policy.pause_after_answer(response, tries, repeatable=request.repeatable)
            if pause_sec is None or time.monotonic() + pause_sec > give_up_at:
                return response
        yield Pause(pause_sec)


def ask(request: ApiRequest) -> Script[Any]:
    """The JSON of the answer. An error answer raises `httpx.HTTPStatusError`."""
    response = yield from send(request)
    return response.raise_for_status().json()


class ResumingStream:
    """Reads the events of a stream, and opens it again after a cut, at the position of the last event.

    `request` makes the request of each connection: what is left of the time may be part of it.
    """

    def __init__(self, request: Callable[[], ApiRequest], last_id: str | None = None) -> None:
        self._request = request
        self.last_id = last_id
        self._parser: EventParser | None = None
        self._failures = 0
        # The gateway answered that nothing is left.
        self.is_finished = False

    def next(self) -> Script[Event | None]:
        """The next event; None when the gateway has ended the stream. After that it is opened again."""
        policy: RequestRetryPolicy = yield PolicyOf()
        while True:
            try:
                return (yield from self._next())
            except (httpx.TransportError, httpx.HTTPStatusError) as error:
                self._parser = None
                self._failures += 1
                if self._failures > RECONNECTS_MAX or not _is_passing(error, policy):
                    raise
                yield Pause(policy.backoff(self._failures))

    def _next(self) -> Script[Event | None]:
        if self._parser is None:
            response: httpx.Response = yield Open(self._positioned())
            if response.raise_for_status().status_code == NO_CONTENT:
                self.is_finished = True
                return None
            self._parser = EventParser()
        while (line := (yield NextLine())) is not None:
            event = self._parser.feed(line)
            if event is not None:
                self._failures = 0
                self.last_id = event.id or self.last_id
                return event
        self._parser = None
        return None

    def _positioned(self) -> ApiRequest:
        request = self._request()
        if self.last_id:
            request.headers["Last-Event-ID"] = self.last_id
        return request


def _is_passing(error: httpx.TransportError | httpx.HTTPStatusError, policy: RequestRetryPolicy) -> bool:
    if policy.tries_max == 1:
        return False
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code in UNAVAILABLE | {TOO_MANY_REQUESTS}
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return policy.connect
    return is_transient(error)


def _with_tries(policy: RequestRetryPolicy, tries_max: int) -> RequestRetryPolicy:
    return RequestRetryPolicy(
        tries_max,
        policy.backoff_sec,
        policy.backoff_sec_max,
        policy.retry_after_sec_max,
        policy.total_sec_max * tries_max,
        policy.connect,
    )


def advance(script: Generator[T, Any, object], outcome: object) -> T:
    """The next step of the script. A broken connection is raised in it, where a retry decides about it."""
    if isinstance(outcome, httpx.TransportError):
        return script.throw(outcome)
    return script.send(outcome)


def arguments_of(request: ApiRequest) -> dict[str, Any]:
    """The request as both kinds of `httpx` client take it."""
    _rewind(request)
    return {
        "params": request.query,
        "json": request.json,
        "content": request.content,
        "data": request.form,
        "files": request.files,
        "headers": request.headers,
        "timeout": request.timeout_sec,
    }


def _rewind(request: ApiRequest) -> None:
    """An open file that was sent before is sent from its beginning."""
    for _, content, *_ in (request.files or {}).values():
        if hasattr(content, "seek"):
            content.seek(0)
