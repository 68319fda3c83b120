"""Instants as the faces with RFC 3339 write them: UTC, microseconds, `Z`."""

from __future__ import annotations

from datetime import UTC, datetime


def rfc3339(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def rfc3339_or_none(at: float | None) -> str | None:
    return None if at is None else rfc3339(at)
