"""What all calls of the HTTP clients share: query values, paths, keys, events, and the time that is left."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from urllib.parse import quote


class Event(NamedTuple):
    """A server-sent event of the gateway: a name, JSON as data, an id. Other fields are ignored."""

    name: str
    data: Any
    id: str | None


class EventParser:
    """Lines of a stream into events. An event that was cut before its end is not one."""

    def __init__(self) -> None:
        self._fields: dict[str, str] = {}

    def feed(self, line: str) -> Event | None:
        """The event that this line ends, if it ends one."""
        if line:
            name, _, value = line.partition(":")
            self._fields[name] = value.removeprefix(" ")
            return None
        fields, self._fields = self._fields, {}
        if "data" not in fields:
            return None
        return Event(fields.get("event", "message"), json.loads(fields["data"]), fields.get("id"))


def events_in(lines: Iterable[str]) -> Iterator[Event]:
    parser = EventParser()
    return (event for line in lines if (event := parser.feed(line)) is not None)


def given(**values: object) -> dict[str, object]:
    """The values that are not None."""
    return {name: value for name, value in values.items() if value is not None}


def path_of(*parts: str) -> str:
    """`/runs/<id>/logs` of `runs`, `<id>`, `logs`; reserved characters are percent-encoded."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def key_header(given_key: str | None, name: str = "Idempotency-Key") -> dict[str, str]:
    """The key of a request: every repetition of the request carries the same one."""
    return {name: given_key or str(uuid.uuid4())}


def execution_key(given_key: str | None) -> dict[str, str]:
    """As `key_header`, as commands to executions spell it."""
    return key_header(given_key, "X-Idempotency-Key")


def deadline_after(timeout_sec: float | None) -> float | None:
    return None if timeout_sec is None else time.monotonic() + timeout_sec


def left_sec(deadline: float | None, most_sec: float) -> float:
    return most_sec if deadline is None else min(most_sec, max(0.0, deadline - time.monotonic()))
