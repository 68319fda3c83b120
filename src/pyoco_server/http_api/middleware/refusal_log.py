"""Logs every response with status 400 or above, of every face and of sockets: error, path and cause.

The guard sees the status of every response and calls `write`; the code that makes the response notes the
error in the `Visit` of the request. A line has no body, no query and no credentials. Above a rate per caller,
one line counts the refusals (`LineBudget`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from urllib.parse import parse_qsl

from starlette.types import Scope

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Forbidden, Internal, PyocoError, Unauthenticated, Unavailable
from pyoco_server.http_api.middleware.redaction import HIDDEN, without_secrets
from pyoco_server.http_api.requests.idempotency import HEADER, loggable_path
from pyoco_server.json_value import JsonObject
from pyoco_server.log_lines import exception_fields

log = logging.getLogger(__name__)

# In the scope: the `Visit` of this request.
VISIT = "pyoco.visit"
PATH_CHARS_MAX = 256
# Path parameters, and the log field of each. Jobs and executions are runs.
SUBJECTS = {"run_id": "run_id", "job_id": "run_id", "executionId": "run_id", "worker_id": "worker_id"}
# Lines about the refusals of one caller: a burst, then a rate.
CALLER_LINES_BURST = 1_000
CALLER_LINES_PER_SEC = 10.0
# Of all callers.
ALL_LINES_BURST = 5_000
ALL_LINES_PER_SEC = 100.0
CALLERS_MAX = 1_000  # an LRU cache
LEFT_OUT_EVERY_SEC = 10.0
# Shorter values occur in unrelated text.
SECRET_CHARS_MIN = 6


class NotReady(Unavailable):
    """The 503 of `/ready`: no request has failed. It is polled, so it is logged at INFO."""


class Visit:
    """One request, for its log line: its id, and the error if it is refused."""

    __slots__ = ("error", "request_id")

    def __init__(self, request_id: str) -> None:
        self.request_id = request_id
        self.error: Exception | None = None


def note_refusal(scope: Scope, error: Exception) -> None:
    """The first error is kept: it is the cause of those that follow."""
    visit: Visit | None = scope.get(VISIT)
    if visit is not None and visit.error is None:
        visit.error = error


class RefusalLog:
    def __init__(self, config: NatsBackendConfig) -> None:
        self._secret_headers = {
            b"authorization",
            b"cookie",
            HEADER.lower().encode(),
            b"x-idempotency-key",
            config.http_api_key_header.lower().encode(),
        }
        self._refused = LineBudget("refusals were not logged one by one")
        self._failed = LineBudget("failed requests were not logged one by one")

    def write(self, scope: Scope, status: int) -> None:
        visit: Visit = scope[VISIT]
        error = visit.error
        client = scope.get("client")
        budget = self._failed if status >= 500 else self._refused
        err_id = error.err_id if isinstance(error, PyocoError) else None
        if not budget.allows(str(client[0]) if client else "", (status, err_id)):
            return
        level, message = _level(status, error)
        fields = {
            "err_id": err_id,
            "msg_id": error.msg_id if isinstance(error, PyocoError) else None,
            "http_status": status,
            "x_request_id": visit.request_id,
            **_place(scope, status),
            **_subject(scope),
            **_about_caller(error),
        }
        if error is not None:
            # The cause of an expected error may quote the body (a parser does), so it is left out.
            described = exception_fields(error, chain=not _is_expected(error))
            fields |= self._without_secrets(scope, described)
        unexpected = error if level >= logging.ERROR else None
        log.log(level, message, exc_info=unexpected, extra=fields)

    def _without_secrets(self, scope: Scope, fields: JsonObject) -> JsonObject:
        secrets = sorted(set(self._secrets(scope)), key=len, reverse=True)
        for name in ("exc_message", "exc_traceback"):
            for secret in secrets:
                fields[name] = str(fields[name]).replace(secret, HIDDEN)
            fields[name] = without_secrets(str(fields[name]))
        return fields

    def _secrets(self, scope: Scope) -> Iterator[str]:
        """Credentials and query values of this request."""
        values = [value.decode("latin-1") for name, value in scope["headers"] if name in self._secret_headers]
        values += [value.partition(" ")[2] for value in values]
        values += [value for _, value in parse_qsl(scope["query_string"].decode("latin-1"))]
        return (value for value in values if len(value) >= SECRET_CHARS_MIN)


class LineBudget:
    """A rate limit of log lines, for each caller and for all. Lines beyond it are counted and reported."""

    def __init__(self, message: str, now: Callable[[], float] = time.monotonic) -> None:
        self._message = message
        self._now = now
        self._all = _Bucket(ALL_LINES_BURST, ALL_LINES_PER_SEC, now())
        self._callers: OrderedDict[str, _Bucket] = OrderedDict()
        self._left_out: Counter[tuple[int, str | None]] = Counter()

    def allows(self, caller: str, what: tuple[int, str | None]) -> bool:
        now = self._now()
        if self._bucket_of(caller, now).take(now) and self._all.take(now):
            return True
        if not self._left_out:
            asyncio.get_running_loop().call_later(LEFT_OUT_EVERY_SEC, self.report)
        self._left_out[what] += 1
        return False

    def report(self) -> None:
        left_out, self._left_out = self._left_out, Counter()
        if left_out:
            counts = [
                {"http_status": status, "err_id": err_id, "count": count}
                for (status, err_id), count in sorted(left_out.items(), key=str)
            ]
            fields = {"left_out": left_out.total(), "counts": counts, "within_sec": LEFT_OUT_EVERY_SEC}
            log.warning(self._message, extra=fields)

    def _bucket_of(self, caller: str, now: float) -> _Bucket:
        bucket = self._callers.get(caller)
        if bucket is None:
            bucket = self._callers[caller] = _Bucket(CALLER_LINES_BURST, CALLER_LINES_PER_SEC, now)
            if len(self._callers) > CALLERS_MAX:
                self._callers.popitem(last=False)
        else:
            self._callers.move_to_end(caller)
        return bucket


class _Bucket:
    __slots__ = ("_at", "_burst", "_left", "_per_sec")

    def __init__(self, burst: int, per_sec: float, now: float) -> None:
        self._burst, self._per_sec = burst, per_sec
        self._left, self._at = float(burst), now

    def take(self, now: float) -> bool:
        self._left = min(self._burst, self._left + (now - self._at) * self._per_sec)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


def _level(status: int, error: Exception | None) -> tuple[int, str]:
    if status < 500:
        is_caller = isinstance(error, Unauthenticated | Forbidden)
        return logging.INFO, "caller refused" if is_caller else "request refused"
    if isinstance(error, NotReady):
        return logging.INFO, "not ready"
    return (logging.WARNING if _is_expected(error) else logging.ERROR), "request failed"


def _is_expected(error: Exception | None) -> bool:
    return isinstance(error, PyocoError) and not isinstance(error, Internal)


def _place(scope: Scope, status: int) -> JsonObject:
    path = loggable_path(scope)
    method = scope.get("method", "WEBSOCKET")
    place = {"method": method, "path": path[:PATH_CHARS_MAX], "route": _route(scope, status)}
    return {name: value for name, value in place.items() if value is not None}


def _subject(scope: Scope) -> dict[str, str]:
    """The run or worker in the path, by the field names that workers use too."""
    params: JsonObject = scope.get("path_params") or {}
    named = {SUBJECTS[name]: str(value) for name, value in params.items() if name in SUBJECTS}
    return {name: without_secrets(value)[:PATH_CHARS_MAX] for name, value in named.items()}


def _route(scope: Scope, status: int) -> str | None:
    """The path with the names of its parameters. None where there is no such path."""
    params: JsonObject = scope.get("path_params") or {}
    if not params:
        return None if status == 404 else loggable_path(scope)[:PATH_CHARS_MAX]
    names = {str(value): name for name, value in params.items()}
    parts = str(scope["path"]).split("/")
    return "/".join(f"{{{names[part]}}}" if part in names else part for part in parts)[:PATH_CHARS_MAX]


def _about_caller(error: Exception | None) -> JsonObject:
    """The id of the refused key, if it is known; never the key."""
    if isinstance(error, Unauthenticated | Forbidden) and isinstance(error.details, dict):
        return error.details
    return {}
