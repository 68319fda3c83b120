"""What is asked in the query of a request: checked, with the sentence that says what may be written."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

from starlette.datastructures import QueryParams

from pyoco_server.errors import Invalid
from pyoco_server.operations.rechecks.look import ORDERS, StrategySearch
from pyoco_server.recheck.checks import among, refused
from pyoco_server.recheck.thresholds import StrategyHealth
from pyoco_server.recheck.windows import instant_at

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


class RecheckListParams(NamedTuple):
    search: StrategySearch
    order: str
    page: int
    page_size: int


class Range(NamedTuple):
    begin: float
    end: float
    limit: int


def list_asked(query: QueryParams, tenant: str) -> RecheckListParams:
    text = _one(query, "q") or ""
    if len(text) > TEXT_CHARS_MAX:
        raise refused("q", f"may have at most {TEXT_CHARS_MAX} characters.")
    if "\0" in text:
        raise refused("q", "may not have a NUL in it; no id or title has.")
    health = _values(query, "health")
    among(health, "health", tuple(StrategyHealth))
    order = _one(query, "sort") or ORDER
    among([order], "sort", tuple(ORDERS))
    search = StrategySearch(
        tenant=tenant,
        text=unicodedata.normalize("NFC", text),
        tags=_values(query, "tags_any"),
        health=health,
        instruments=_values(query, "instrument"),
        enabled=_enabled(query),
    )
    page = number(query, "page", 1, PAGE_MAX, 1)
    return RecheckListParams(search, order, page, number(query, "page_size", *PAGE_SIZES, PAGE_SIZE))


def range_asked(query: QueryParams) -> Range:
    begin, end = _one(query, "from"), _one(query, "to")
    asked = Range(
        begin=0.0 if begin is None else instant_at(begin, "from", ends_day=False).timestamp(),
        end=1e18 if end is None else instant_at(end, "to", ends_day=True).timestamp(),
        limit=number(query, "limit", *HISTORY, 100),
    )
    if asked.begin > asked.end:
        raise Invalid("from must not be after to.")
    return asked


def number(query: QueryParams, name: str, least: int, most: int, default: int) -> int:
    text = _one(query, name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 20 and least <= int(text) <= most):
        raise refused(name, f"must be a whole number, {least} to {most}.")
    return int(text)


def artifact_id_in(text: str) -> int | None:
    """None for what is no number that an artifact could have."""
    is_number = text.isascii() and text.isdigit() and len(text) <= 20
    return int(text) if is_number and int(text) < ARTIFACT_ID_MAX else None


def _one(query: QueryParams, name: str) -> str | None:
    values = query.getlist(name)
    if len(values) > 1:
        raise refused(name, "was given more than once.")
    return values[0] if values else None


def _values(query: QueryParams, name: str) -> tuple[str, ...]:
    """Joined by commas, or given several times; nothing between two commas is nothing."""
    parts: Iterable[str] = (part.strip() for text in query.getlist(name) for part in text.split(","))
    values = tuple(dict.fromkeys(part for part in parts if part))
    if len(values) > VALUES_MAX:
        raise refused(name, f"may hold at most {VALUES_MAX} values.")
    return values


def _enabled(query: QueryParams) -> bool | None:
    text = _one(query, "enabled") or "all"
    among([text], "enabled", tuple(_ENABLED))
    return _ENABLED[text]
