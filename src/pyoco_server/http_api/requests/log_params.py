"""What query strings ask of a log, in our words. Each face spells the names its own way."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from pyoco_server.errors import Invalid
from pyoco_server.http_api.responses.instants import rfc3339
from pyoco_server.operations.logs.pages import LINES_DEFAULT, LINES_MAX, PageAsked
from pyoco_server.operations.logs.search import TEXT_CHARS_MAX, Sought

_NUMBER = re.compile(r"[0-9]{1,15}")
_FLAGS = {"true": True, "1": True, "false": False, "0": False}
LINE_NUMBER_MAX = 10**15 - 1


class LogWords(NamedTuple):
    """How a face calls what is asked and answered."""

    since_token: str
    from_line: str
    next_token: str
    to_line: str
    paused_by: str


def is_about_a_page(query: Mapping[str, str], words: LogWords) -> bool:
    """Whether something else than the whole log is asked for."""
    return bool(query.keys() & {words.since_token, words.from_line, "limit", "tail", "q", "task", "since"})


def page_asked(query: Mapping[str, str], words: LogWords, *, limit: int = LINES_DEFAULT) -> PageAsked:
    places = [name for name in (words.since_token, words.from_line, "tail") if name in query]
    if len(places) > 1:
        raise _wrong(places[1], f"Say one of {' and '.join(places)}: where to begin.")
    tail = _number(query, "tail", LINES_MAX)
    return PageAsked(
        token=query.get(words.since_token),
        from_line=_number(query, words.from_line, LINE_NUMBER_MAX),
        tail=tail,
        limit=_number(query, "limit", LINES_MAX) or tail or limit,
        sought=_sought(query),
    )


def _sought(query: Mapping[str, str]) -> Sought | None:
    is_pattern = _FLAGS.get(query.get("regex", "false"))
    if is_pattern is None:
        raise _wrong("regex", "regex must be true or false.")
    if not query.keys() & {"q", "task", "since"}:
        return None
    text = query.get("q")
    if text is not None and not 1 <= len(text) <= TEXT_CHARS_MAX:
        raise _wrong("q", f"q must have 1 to {TEXT_CHARS_MAX} characters.")
    return Sought(text, is_pattern, query.get("task"), _instant(query, "since"))


def _instant(query: Mapping[str, str], name: str) -> str | None:
    """In unix seconds or as RFC 3339; as lines have it."""
    given = query.get(name)
    if given is None:
        return None
    try:
        try:
            at = float(given)
        except ValueError:
            moment = datetime.fromisoformat(given)
            at = moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()
        return rfc3339(at) if math.isfinite(at) else _no_instant(name)
    except (ValueError, OverflowError, OSError):
        return _no_instant(name)


def _no_instant(name: str) -> str:
    raise _wrong(name, f"{name} must be an instant: unix seconds, or like 2026-02-18T12:00:00Z.")


def _number(query: Mapping[str, str], name: str, most: int) -> int | None:
    given = query.get(name)
    if given is None:
        return None
    if not _NUMBER.fullmatch(given) or not 1 <= int(given) <= most:
        raise _wrong(name, f"{name} must be a whole number from 1 to {most}.")
    return int(given)


def _wrong(name: str, message: str) -> Invalid:
    return Invalid(message, details=[{"loc": ["query", name], "msg": message, "type": "value_error"}])
