"""Replace what differs between two recordings of one scene by stable, plausible values.

The first id of a scene always gets the same replacement, the second the next one: an id in a request is the
same id in its answer. Instants depend on the names of their members, so that no race changes them.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

METRIC_LINES = 8
BEGAN_AT = 1_771_416_000.25  # 2026-02-18T12:00:00.25Z
_TOKEN = "MXq0Jz8V2yqk1nVbW3sT0c1bNDJd"
# Seconds after the beginning, by the first part of a member's name that fits.
_OFFSETS = {"created": 0, "submitted": 0, "reserved": 0, "start": 1.5, "expires": 172_800, "next": 3_600}
_OFFSET = 4.5
# Members whose values depend on the machine, the moment or the random part of a token.
_VALUES: Mapping[str, Any] = {
    "next_cursor": _TOKEN,
    "nextCursor": _TOKEN,
    "next_token": _TOKEN,
    "nextToken": _TOKEN,
    "last_event_id": _TOKEN,
    "ticket": "Zk3vX1p7Q2mN8rT5yB6cW0aH4sJ9dLfG",
    "token": _TOKEN,
    "nuid": "Q7ZKX0C3W6N1V9K4N8YB2H",
    "Last-Event-ID": _TOKEN,
    "retry_after": 6,
    "pid": 4242,
    "cpu_cores": 2,
    "memory_bytes": 100_663_296,
    "instance_id": "worker-1.7cf3cfeeabb3",
    "duration_ms": 12.5,
    "durations_sec": 0.25,
    "bytes": 4096,
    "messages": 12,
    "last_seq": 12,
    "If-None-Match": '"404355071ad58df7cce88754529eced7"',
    "python": "3.12.3",
    "pyoco": "0.8.0",
    "nats-py": "2.12.0",
}
_UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_ULID = re.compile(r"\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b")
_DIGEST = re.compile(r"\b[0-9a-f]{64}\b")
_HEX = re.compile(r"\b[0-9a-f]{32}\b")
_UNIX_SEC = re.compile(r"\b1[6-9]\d{8}\.\d+\b")
_INSTANT = re.compile(r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)")
# Sentences with a number that differs each time.
_SENTENCES = {
    re.compile(r"Come back in \d+ s"): "Come back in 6 s",
    re.compile(r"succeeded in [\d.]+ ms"): "succeeded in 12.5 ms",
    re.compile(r"There are \d+ bytes"): "There are 312 bytes",
    re.compile(r"nats://127\.0\.0\.1:\d+"): "nats://127.0.0.1:4222",
    re.compile(r"(?<!nats://)127\.0\.0\.1:\d+"): "127.0.0.1:8000",
    re.compile(r"python-httpx/[\d.]+"): "python-httpx/0.28.1",
    re.compile(r"([?&]token=)[\w.~%-]+"): rf"\g<1>{_TOKEN}",
}


class Stable:
    """One scene. `names`: texts that stand for others wherever they occur."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        self._ids: dict[str, str] = {}
        self._counts: Counter[Callable[[int], str]] = Counter()

    def value(self, value: Any, name: str = "") -> Any:
        match value:
            case None:
                return None
            case dict():
                return {self.text(key): self.value(one, key) for key, one in value.items()}
            case list():
                return [self.value(one, name) for one in value]
            case _ if name in _VALUES:
                return _VALUES[name]
            case str():
                return self.text(value, name)
            case int() | float() if not isinstance(value, bool) and 1.6e9 < value < 2.6e9:
                return type(value)(_instant(name))
        return value

    def text(self, text: str, name: str = "") -> str:
        for old, new in self._names.items():
            text = text.replace(old, new)
        text = _INSTANT.sub(lambda found: _written(_instant(name), found), text)
        text = _UNIX_SEC.sub(str(_instant(name)), text)
        for sentence, stable in _SENTENCES.items():
            text = sentence.sub(stable, text)
        for pattern, make in _IDS.items():
            text = pattern.sub(partial(self._id, make), text)
        return text

    def events(self, text: str) -> str:
        """Server-sent events: ids are tokens or numbers, data is JSON."""
        return "\n".join(map(self._event_line, text.split("\n")))

    def metrics(self, text: str) -> str:
        """The first ones; what they have counted differs each time."""
        lines = text.splitlines()[:METRIC_LINES]
        return "".join(re.sub(r" [0-9.e+-]+$", " 3", line) + "\n" for line in lines)

    def _event_line(self, line: str) -> str:
        field, _, rest = line.partition(": ")
        if field == "id":
            return f"id: {rest if rest.isdigit() else self._event_id(rest)}"
        return f"data: {json.dumps(self.value(json.loads(rest)))}" if field == "data" else self.text(line)

    def _event_id(self, event_id: str) -> str:
        """`topic@place` of `GET /stream`, or a token alone."""
        topic, mark, _ = event_id.rpartition("@")
        return f"{self.text(topic)}{mark}{_TOKEN}"

    def _id(self, make: Callable[[int], str], found: re.Match[str]) -> str:
        if found[0] not in self._ids:
            self._counts[make] += 1
            self._ids[found[0]] = make(self._counts[make])
        return self._ids[found[0]]


def _instant(name: str) -> float:
    snake = re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()
    fitting = (offset for part, offset in _OFFSETS.items() if snake.startswith(part))
    return BEGAN_AT + next(fitting, _OFFSET)


def _written(at: float, found: re.Match[str]) -> str:
    moment = datetime.fromtimestamp(at, UTC)
    digits = len(found[1]) - 1 if found[1] else 0
    fraction = f".{moment.microsecond:06d}"[: digits + 1] if digits else ""
    return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}{found[2]}"


def _uuid(number: int) -> str:
    return str(uuid.UUID(hashlib.sha256(b"uuid %d" % number).hexdigest()[:32], version=4))


def _ulid(number: int) -> str:
    return f"01KHRE2Z0A{number:02d}6Z1V9K4N8YB2H5"[:26]


def _digest(number: int) -> str:
    return hashlib.sha256(b"digest %d" % number).hexdigest()


def _hex(number: int) -> str:
    return _digest(number)[:32]


_IDS: Mapping[re.Pattern[str], Callable[[int], str]] = {
    _UUID: _uuid,
    _ULID: _ulid,
    _DIGEST: _digest,
    _HEX: _hex,
}
