"""The query parameters of this face, with the errors of this face."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import NamedTuple, TypeVar

from starlette.requests import HTTPConnection

from pyoco_server.errors import Invalid
from pyoco_server.http_api.faces.recheck.schemas import ID, ULID
from pyoco_server.http_api.routing.kinds import IntegerKind, TextKind, Unfit
from pyoco_server.http_api.routing.params import AnyParam, ListParam, Param, path
from pyoco_server.http_api.routing.schemas import TEXT, Schema, count
from pyoco_server.operations.identity.callers import DEFAULT_TENANT
from pyoco_server.read_model.recheck_table import ORDERS, StrategySearch
from pyoco_server.recheck.checks import check_known, instant_at, invalid
from pyoco_server.recheck.thresholds import StrategyHealth

TEXT_CHARS_MAX = 64
VALUES_MAX = 100
PAGE_MAX = 1_000_000
PAGE_SIZES = (10, 100)
PAGE_SIZE = 50
HISTORY = (1, 200)
WINDOW_DAYS = (1, 365)
ARTIFACT_ID_MAX = 2**62
ORDER = "last_checked_at.desc"

_ENABLED = {"all": None, "on": True, "off": False, "true": True, "false": False}

T = TypeVar("T")


class _Once(Param[T]):
    """Refused when it is given more than once."""

    def refuse(self, rest: str) -> Invalid:
        return invalid(self.name, rest)

    def _text(self, request: HTTPConnection) -> str | None:
        values = request.query_params.getlist(self.name)
        if len(values) > 1:
            raise self.refuse("was given more than once.")
        return values[0] if values else None


class _Searched(TextKind):
    def read(self, text: str) -> str:
        if len(text) > TEXT_CHARS_MAX:
            raise Unfit(f"may have at most {TEXT_CHARS_MAX} characters.")
        if "\0" in text:
            raise Unfit("may not have a NUL in it; no id or title has.")
        return unicodedata.normalize("NFC", text)


class _Joined(ListParam[str]):
    """Values joined by commas, or repeated. Empty values are ignored."""

    def read(self, request: HTTPConnection) -> tuple[str, ...]:
        given = request.query_params.getlist(self.name)
        parts = (part.strip() for text in given for part in text.split(","))
        values = tuple(dict.fromkeys(part for part in parts if part))
        if len(values) > VALUES_MAX:
            raise invalid(self.name, f"may hold at most {VALUES_MAX} values.")
        return values

    def describe(self) -> Schema:
        return super().describe() | {"schema": TEXT}


def _integer(name: str, limits: tuple[int, int], default: int, description: str) -> Param[int]:
    kind = IntegerKind(*limits, digits=20, says="must be a whole number, {least} to {most}.")
    return _Once(name, kind, default, description)


def _one_of(name: str, values: Iterable[str], default: str, description: str) -> Param[str]:
    """Which values there are is checked by `check_known`, in the words of this face."""
    return _Once(name, TextKind(more={"enum": list(values)}), default, description, skips="empty")


STRATEGY_ID, REQUEST_ID = path("strategy_id", TextKind(more=ID)), path("request_id", TextKind(more=ULID))
ARTIFACT_ID = path("artifact_id", TextKind(more=count()))
SEARCHED = _Once("q", _Searched(more={"maxLength": TEXT_CHARS_MAX}), "", "In the id or title, literally.")
TAGS_ANY = _Joined("tags_any", TextKind(), "Tags joined by commas; one is enough.")
HEALTH = _Joined("health", TextKind(), f"Of {', '.join(StrategyHealth)}; joined by commas.")
INSTRUMENT = _Joined("instrument", TextKind(), "Instruments joined by commas.")
ENABLED = _one_of("enabled", _ENABLED, "all", "Which of them.")
SORT = _one_of("sort", ORDERS, ORDER, "The order.")
PAGE = _integer("page", (1, PAGE_MAX), 1, "Which page.")
PER_PAGE = _integer("page_size", PAGE_SIZES, PAGE_SIZE, "How many on a page.")
LIST_PARAMS: tuple[AnyParam, ...] = (
    SEARCHED,
    TAGS_ANY,
    HEALTH,
    INSTRUMENT,
    ENABLED,
    SORT,
    PAGE,
    PER_PAGE,
)
SUMMARY_DAYS = _integer("summary_window_days", WINDOW_DAYS, 30, "Averages of these days.")
LIMIT_HISTORY = _integer("limit_history", HISTORY, 50, "How many results.")
FROM = _Once[str | None]("from", TextKind(), None, "From this instant or day on.")
TO = _Once[str | None]("to", TextKind(), None, "Up to this instant or day.")
LIMIT = _integer("limit", HISTORY, 100, "How many at most.")
SIGNED_TENANT = Param("tenant", TextKind(), DEFAULT_TENANT, "As the signed address has it.")
SIGNED_TOKEN = Param("token", TextKind(), "", "As the signed address has it.")


class RecheckListParams(NamedTuple):
    search: StrategySearch
    order: str
    page: int
    page_size: int


class Range(NamedTuple):
    begin: float
    end: float
    limit: int


def read_list_params(request: HTTPConnection, tenant: str) -> RecheckListParams:
    text, health = SEARCHED.read(request), HEALTH.read(request)
    check_known(health, HEALTH.name, tuple(StrategyHealth))
    order = SORT.read(request)
    check_known([order], SORT.name, tuple(ORDERS))
    tags, instruments = TAGS_ANY.read(request), INSTRUMENT.read(request)
    enabled = ENABLED.read(request)
    check_known([enabled], ENABLED.name, tuple(_ENABLED))
    search = StrategySearch(
        tenant=tenant,
        text=text,
        tags=tags,
        health=health,
        instruments=instruments,
        enabled=_ENABLED[enabled],
    )
    return RecheckListParams(search, order, PAGE.read(request), PER_PAGE.read(request))


def read_range(request: HTTPConnection) -> Range:
    begin, end = FROM.read(request), TO.read(request)
    asked = Range(
        begin=0.0 if begin is None else instant_at(begin, FROM.name, ends_day=False).timestamp(),
        end=1e18 if end is None else instant_at(end, TO.name, ends_day=True).timestamp(),
        limit=LIMIT.read(request),
    )
    if asked.begin > asked.end:
        raise Invalid("from must not be after to.")
    return asked


def parse_artifact_id(text: str) -> int | None:
    """None for an invalid id."""
    is_number = text.isascii() and text.isdigit() and len(text) <= 20
    return int(text) if is_number and int(text) < ARTIFACT_ID_MAX else None
