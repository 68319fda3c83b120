"""The query parameters of logs. Each face has its own names for some of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from starlette.requests import HTTPConnection

from pyoco_server.errors import Invalid
from pyoco_server.http_api.responses.instants import rfc3339
from pyoco_server.http_api.routing.kinds import FlagKind, IntegerKind, TextKind, Unfit
from pyoco_server.http_api.routing.params import AnyParam, Param, header, text
from pyoco_server.http_api.routing.schemas import Schema
from pyoco_server.operations.logs.pages import LINES_DEFAULT, LINES_MAX, PageAsked
from pyoco_server.operations.logs.search import TEXT_CHARS_MAX, Sought

LINE_NUMBER_MAX = 10**15 - 1
_DIGITS_MAX = 15


class _SearchText(TextKind):
    def read(self, text: str) -> str:
        if not 1 <= len(text) <= TEXT_CHARS_MAX:
            raise Unfit(f"must have 1 to {TEXT_CHARS_MAX} characters.")
        return text

    def schema(self) -> Schema:
        return {"type": "string", "minLength": 1, "maxLength": TEXT_CHARS_MAX}


class _Moment(TextKind):
    """Unix seconds or RFC 3339; read into the format of log lines."""

    def read(self, text: str) -> str:
        try:
            at = _seconds(text)
            if math.isfinite(at):
                return rfc3339(at)
        except (ValueError, OverflowError, OSError):
            pass
        raise Unfit("must be an instant: unix seconds, or like 2026-02-18T12:00:00Z.")


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()


def _lines(name: str, most: int, description: str) -> Param[int | None]:
    return Param[int | None](name, IntegerKind(1, most, _DIGITS_MAX), None, description)


TAIL = _lines("tail", LINES_MAX, "The last so many lines.")
LIMIT = _lines(
    "limit", LINES_MAX, f"How many lines at most; as JSON {LINES_DEFAULT}, else {LINES_MAX}, if not given."
)
TEXT = Param[str | None]("q", _SearchText(), None, "Only lines with this text.")
REGEX = Param("regex", FlagKind(), False, "`q` is a pattern of RE2, of bounded size.")
TASK = text("task", "Only what this task printed.")
SINCE = Param[str | None]("since", _Moment(), None, "Only what is not older: unix seconds, or RFC 3339.")
# For every representation whose size and tag are known.
CONDITIONS: tuple[AnyParam, ...] = (
    header("Range", "A part of the representation: `bytes=<first>-<last>`."),
    header("If-Range", "A tag: the part is sent only if the representation still has it, else the whole."),
    header("If-None-Match", "Tags of what the caller has; 304 if it is still that."),
)


class LogWords(NamedTuple):
    """The names of a face for parameters and members of logs."""

    since_token: str
    from_line: str
    next_token: str
    to_line: str
    paused_by: str

    def since(self) -> Param[str | None]:
        return text(self.since_token, "Only what came after this token.")

    def first_line(self) -> Param[int | None]:
        return _lines(self.from_line, LINE_NUMBER_MAX, "Begin with this line.")

    def params(self) -> tuple[AnyParam, ...]:
        """The parameters of a page of a log."""
        return (self.since(), self.first_line(), TAIL, LIMIT, TEXT, REGEX, TASK, SINCE, *CONDITIONS)


def asks_for_page(query: Mapping[str, str], words: LogWords) -> bool:
    """Whether a part of the log is requested, not all of it."""
    return bool(query.keys() & {words.since_token, words.from_line, "limit", "tail", "q", "task", "since"})


def read_page_params(request: HTTPConnection, words: LogWords, *, limit: int = LINES_DEFAULT) -> PageAsked:
    query = request.query_params
    places = [name for name in (words.since_token, words.from_line, TAIL.name) if name in query]
    if len(places) > 1:
        raise Invalid.at(["query", places[1]], f"Say one of {' and '.join(places)}: where to begin.")
    tail = TAIL.read(request)
    return PageAsked(
        token=words.since().read(request),
        from_line=words.first_line().read(request),
        tail=tail,
        limit=LIMIT.read(request) or tail or limit,
        sought=_sought(request),
    )


def _sought(request: HTTPConnection) -> Sought | None:
    is_pattern = REGEX.read(request)
    if not request.query_params.keys() & {"q", "task", "since"}:
        return None
    return Sought(TEXT.read(request), is_pattern, TASK.read(request), SINCE.read(request))
