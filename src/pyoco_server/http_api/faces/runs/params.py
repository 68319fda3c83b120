"""What query strings of the runs face ask, in our words. Refuses what it cannot read, and echoes nothing."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

from starlette.requests import Request

from pyoco_server.errors import Invalid
from pyoco_server.lifecycle.status import RunStatus
from pyoco_server.operations.runs.query import INVALID_LIST, Filter

LIMIT_DEFAULT, LIMIT_MAX = 50, 200
WAIT_SEC_MAX = 60.0
WATCH_SEC_DEFAULT, WATCH_SEC_MAX = 60, 600
DETAILED = frozenset({"records", "full", "all"})
# With one of these a list is answered in pages.
PAGED_BY = frozenset({"updated_after", "cursor", "workflow_yaml_sha256", "q"})
TEXT_CHARS_MAX = 200

_INVALID = "ERR-PYOCO-0002"
_FEW = re.compile(r"[0-9]{1,3}")


class RunListParams(NamedTuple):
    """`cursor` is None for the first page, and for a list that has none."""

    wanted: Filter
    limit: int
    in_pages: bool
    cursor: str | None
    text: str | None = None


class WatchParams(NamedTuple):
    records: bool
    since: float | None
    timeout_sec: int
    last_event_id: str | None


def list_asked(query: Mapping[str, str], *, tenant_id: str | None) -> RunListParams:
    status = query.get("status") or None
    if status is not None and status not in RunStatus.__members__:
        raise wrong("status", f"status must be one of {', '.join(RunStatus)}.", INVALID_LIST)
    # An empty digest or text asks for nothing; an empty cursor is where the first page begins.
    asked = {name for name, value in query.items() if value or name not in ("workflow_yaml_sha256", "q")}
    wanted = Filter(
        status=status,
        flow=query.get("flow") or None,
        tag=query.get("tag") or None,
        yaml=query.get("workflow_yaml_sha256") or None,
        tenant=tenant_id,
        updated_after=_instant(query, "updated_after", INVALID_LIST),
    )
    text = query.get("q", "")
    if len(text) > TEXT_CHARS_MAX:
        raise wrong("q", f"q has at most {TEXT_CHARS_MAX} characters.", INVALID_LIST)
    in_pages = bool(asked & PAGED_BY)
    return RunListParams(wanted, list_limit(query), in_pages, query.get("cursor") or None, text or None)


def list_limit(query: Mapping[str, str]) -> int:
    return _few(query, "limit", LIMIT_DEFAULT, LIMIT_MAX, INVALID_LIST)


def watch_asked(request: Request) -> WatchParams:
    query = request.query_params
    return WatchParams(
        records=wants_records(query.getlist("include")),
        since=_instant(query, "since", _INVALID),
        timeout_sec=_few(query, "timeout_sec", WATCH_SEC_DEFAULT, WATCH_SEC_MAX, _INVALID),
        last_event_id=request.headers.get("last-event-id") or query.get("last_event_id") or None,
    )


def wants_records(include: list[str], err_id: str = _INVALID) -> bool:
    if set(include) - DETAILED:
        raise wrong("include", "include must be records, full or all.", err_id)
    return bool(include)


def wait_sec(query: Mapping[str, str]) -> float:
    raw = query.get("wait", "0")
    try:
        seconds = float(raw)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= WAIT_SEC_MAX:
        raise wrong("wait", f"wait must be a number of seconds from 0 to {WAIT_SEC_MAX:g}.", _INVALID)
    return seconds


def wrong(name: str, message: str, err_id: str) -> Invalid:
    return Invalid(message, err_id=err_id, details=[_problem(name, message)])


def _few(query: Mapping[str, str], name: str, default: int, most: int, err_id: str) -> int:
    raw = query.get(name, str(default))
    if not _FEW.fullmatch(raw) or not 1 <= int(raw) <= most:
        raise wrong(name, f"{name} must be a whole number from 1 to {most}.", err_id)
    return int(raw)


def _instant(query: Mapping[str, str], name: str, err_id: str) -> float | None:
    if name not in query:
        return None
    try:
        instant = float(query[name])
    except ValueError:
        instant = math.nan
    if not math.isfinite(instant):
        raise wrong(name, f"{name} must be an instant in unix seconds.", err_id)
    return instant


def _problem(name: str, message: str) -> dict[str, object]:
    return {"loc": ["query", name], "msg": message, "type": "value_error"}
