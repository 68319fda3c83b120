"""Ids that connect everything that a request causes: `traceparent` (W3C), and the caller's correlation id.

Owns their formats. They are stored in runs, NATS headers and log lines, so neither may have a line break or
be of unlimited length.
"""

from __future__ import annotations

import re

# Of HTTP and of NATS messages alike.
CORRELATION_HEADER, TRACEPARENT_HEADER = "X-Correlation-Id", "traceparent"
CORRELATION_ID_CHARS_MAX = 256
CORRELATION_ID_RULE = f"may have 1 to {CORRELATION_ID_CHARS_MAX} printable characters."

# Later versions may append fields; those of version 00 come first in every one of them.
_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[\x21-\x7e]*)?")
TRACEPARENT_CHARS_MAX = 512
_FORBIDDEN_VERSION = "ff"


def usable_traceparent(given: str | None) -> str | None:
    """In the form of version 00; None for one that W3C says to ignore."""
    if given is None or len(given) > TRACEPARENT_CHARS_MAX:
        return None
    found = _TRACEPARENT.fullmatch(given)
    if found is None:
        return None
    version, trace_id, parent_id, flags, more = found.groups()
    if (
        version == _FORBIDDEN_VERSION
        or (version == "00" and more)
        or not (trace_id.strip("0") and parent_id.strip("0"))
    ):
        return None
    return f"00-{trace_id}-{parent_id}-{flags}"


def is_correlation_id(given: str) -> bool:
    return 0 < len(given) <= CORRELATION_ID_CHARS_MAX and given.isprintable()


def usable_correlation_id(given: str | None) -> str | None:
    """None if it is not valid. For jobs of other producers, which get no error answer."""
    return given if given is not None and is_correlation_id(given) else None
