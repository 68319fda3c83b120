"""What all calls of the HTTP client share: query values, answers, streams, and the time that is left."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import httpx

# A stream that breaks is opened again at the same place, at most this often in a row.
RECONNECTS_MAX = 10
RECONNECT_SEC = 1.0


class Event(NamedTuple):
    """A server-sent event of the gateway: a name, JSON as data, an id. Other fields are ignored."""

    name: str
    data: Any
    id: str | None


def given(**values: Any) -> dict[str, Any]:
    """The values that are not None."""
    return {name: value for name, value in values.items() if value is not None}


def answer(response: httpx.Response) -> Any:
    return response.raise_for_status().json()


def object_in(response: httpx.Response) -> dict[str, Any]:
    found: dict[str, Any] = answer(response)
    return found


def list_in(response: httpx.Response) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = answer(response)
    return found


@contextmanager
def open_stream(
    http: httpx.Client, path: str, query: dict[str, Any] | None = None, last_id: str | None = None
) -> Iterator[httpx.Response]:
    headers = {"Last-Event-ID": last_id} if last_id else {}
    with http.stream("GET", path, params=query, headers=headers) as response:
        if response.is_error:
            response.read()  # the error shows the body
        response.raise_for_status()
        yield response


def events_in(lines: Iterable[str]) -> Iterator[Event]:
    fields: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(":")
            fields[name] = value.removeprefix(" ")
            continue
        if "data" in fields:
            yield Event(fields.get("event", "message"), json.loads(fields["data"]), fields.get("id"))
        fields = {}


def deadline_after(timeout_sec: float | None) -> float | None:
    return None if timeout_sec is None else time.monotonic() + timeout_sec


def left_sec(deadline: float | None, most_sec: float) -> float:
    return most_sec if deadline is None else min(most_sec, max(0.0, deadline - time.monotonic()))
