"""Instants as people type them: so long ago, unix seconds, or ISO 8601."""

from __future__ import annotations

import re
import time
from datetime import datetime

from pyoco_server.cli.entry import WrongArguments

UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_AGO = re.compile(r"(\d+)([smhd])")


def instant_of(since: str | None, example: str) -> float | None:
    """In unix seconds."""
    if since is None:
        return None
    if ago := _AGO.fullmatch(since):
        return time.time() - int(ago.group(1)) * UNITS[ago.group(2)]
    try:
        return float(since)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(since).astimezone().timestamp()
    except ValueError:
        message = "--since is 30s, 10m, 2h, 1d, or an instant like 2026-02-18T12:00:00Z."
        raise WrongArguments(message, hint=example) from None
