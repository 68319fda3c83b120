"""Query parameters of the runs face. Invalid values are refused, and never repeated in the answer."""

from __future__ import annotations

from typing import NamedTuple

from starlette.requests import Request

from pyoco_server.errors import Invalid
from pyoco_server.http_api.routing.kinds import ChoiceKind, IntegerKind, NumberKind, TextKind
from pyoco_server.http_api.routing.params import LAST_EVENT_ID, TICKET, AnyParam, ListParam, Param, path, text
from pyoco_server.operations.runs.query import INVALID_LIST
from pyoco_server.read_model.run_table import LISTED_STATUSES, Filter
from pyoco_server.read_model.sorted_runs import BY_CHANGE, BY_SUBMISSION, ORDERS, Sorting

LIMIT_DEFAULT, LIMIT_MAX = 50, 200
WAIT_SEC_MAX = 60.0
WATCH_SEC_DEFAULT, WATCH_SEC_MAX = 60, 600
TEXT_CHARS_MAX = 200
ID_PREFIX_CHARS_MIN = 4

RUN_ID = path("run_id")
LIMIT = Param("limit", IntegerKind(1, LIMIT_MAX), LIMIT_DEFAULT, "How many at most.", err_id=INVALID_LIST)
INCLUDE = ListParam(
    "include", ChoiceKind(("records", "full", "all"), "must be records, full or all."), "With task records."
)
LIST_INCLUDE = INCLUDE.with_error(INVALID_LIST)
STATUS = ListParam(
    "status",
    ChoiceKind(LISTED_STATUSES),
    "Only runs with this status; repeated: with one of these. WAITING: RUNNING, and a task waits for an "
    "answer or an instant. EXECUTING: RUNNING, and no task waits.",
    err_id=INVALID_LIST,
    skips_empty=True,
)
FLOW = text("flow", "Only runs of this flow.")
TAG = text("tag", "Only runs routed by this tag.")
UPDATED_AFTER = Param[float | None](
    "updated_after",
    NumberKind("must be an instant in unix seconds."),
    None,
    "Only runs that changed after this instant, in unix seconds.",
    err_id=INVALID_LIST,
)
SUBMITTED_AFTER = Param[float | None](
    "submitted_after",
    NumberKind("must be an instant in unix seconds."),
    None,
    "Only runs that were submitted after this instant, in unix seconds.",
    err_id=INVALID_LIST,
)
SUBMITTED_BEFORE = Param[float | None](
    "submitted_before",
    NumberKind("must be an instant in unix seconds."),
    None,
    "Only runs that were submitted before this instant, in unix seconds.",
    err_id=INVALID_LIST,
)
RETRY_OF = text("retry_of", "Only runs that retry this run: a whole id.")
SORT = Param[str | None](
    "sort",
    ChoiceKind(ORDERS),
    None,
    f"What is sorted by; a minus: the greatest value first. By default {BY_CHANGE}, or {BY_SUBMISSION} "
    "with `submitted_after`, `submitted_before` or `retry_of`. By duration: only runs that have started "
    "and ended.",
    err_id=INVALID_LIST,
)
BATCH = text("batch_id", "Only runs that were submitted in this batch: a whole id.")
CURSOR = text("cursor", "`next_cursor` of the previous page; opaque, valid for the same filters only.")
YAML_SHA256 = text("workflow_yaml_sha256", "Only runs of the flow.yaml with this digest.")
SEARCHED = Param(
    "q",
    TextKind(TEXT_CHARS_MAX),
    "",
    "Only runs with this text in their id, flow, tags, worker or error; a whole id is looked up. "
    "A page searches a few thousand runs: it may have few items, or none, and still a `next_cursor`.",
    err_id=INVALID_LIST,
)
ID_PREFIX = Param(
    "id_prefix",
    TextKind(TEXT_CHARS_MAX),
    "",
    f"Only runs whose id begins with this, by id: at least {ID_PREFIX_CHARS_MIN} characters. "
    "Other filters do not apply, and there is one page only.",
    err_id=INVALID_LIST,
)
LIST_PARAMS: tuple[AnyParam, ...] = (
    STATUS,
    FLOW,
    TAG,
    LIMIT,
    UPDATED_AFTER,
    SUBMITTED_AFTER,
    SUBMITTED_BEFORE,
    RETRY_OF,
    SORT,
    BATCH,
    CURSOR,
    YAML_SHA256,
    SEARCHED,
    ID_PREFIX,
    LIST_INCLUDE,
)
WAIT = Param(
    "wait",
    NumberKind(f"must be a number of seconds from 0 to {WAIT_SEC_MAX:g}.", 0, WAIT_SEC_MAX),
    0.0,
    "Answer when the run has ended, or after this many seconds.",
)
SINCE = Param[float | None](
    "since",
    NumberKind("must be an instant in unix seconds."),
    None,
    "Only what changed at or after this instant, in unix seconds.",
)
TIMEOUT_SEC = Param(
    "timeout_sec", IntegerKind(1, WATCH_SEC_MAX), WATCH_SEC_DEFAULT, "The stream ends after this long."
)
LAST_ID_IN_QUERY = text("last_event_id", "Like the header, for clients that cannot send one.")
# Both streams read and check `include` and `since`.
FOLLOW_PARAMS: tuple[AnyParam, ...] = (INCLUDE, SINCE, TIMEOUT_SEC, LAST_ID_IN_QUERY, LAST_EVENT_ID, TICKET)
# With one of these parameters the answer is a page.
_SORTED_BY = (SUBMITTED_AFTER.name, SUBMITTED_BEFORE.name, RETRY_OF.name)
PAGED_BY = frozenset(
    {UPDATED_AFTER.name, CURSOR.name, YAML_SHA256.name, SEARCHED.name, SORT.name, BATCH.name, *_SORTED_BY}
)


class RunListParams(NamedTuple):
    """`cursor` is None for the first page, and for a list without pages. `sorting`: None by change."""

    wanted: Filter
    limit: int
    in_pages: bool
    cursor: str | None
    text: str | None = None
    sorting: Sorting | None = None


class WatchParams(NamedTuple):
    records: bool
    since: float | None
    timeout_sec: int
    last_event_id: str | None


def list_asked(request: Request, *, tenant_id: str | None) -> RunListParams:
    statuses, query = set(STATUS.read(request)), request.query_params
    # An empty digest or text means no filter; an empty cursor means the first page.
    skipped = (YAML_SHA256.name, SEARCHED.name)
    asked = {name for name, value in query.items() if value or name not in skipped}
    wanted = Filter(
        # In one order: the same filter has the same cursors.
        status=",".join(one for one in LISTED_STATUSES if one in statuses) or None,
        flow=FLOW.read(request) or None,
        tag=TAG.read(request) or None,
        yaml=YAML_SHA256.read(request) or None,
        batch=BATCH.read(request) or None,
        tenant=tenant_id,
        updated_after=UPDATED_AFTER.read(request),
    )
    text = SEARCHED.read(request)
    in_pages = bool(asked & PAGED_BY)
    cursor = CURSOR.read(request) or None
    return RunListParams(wanted, LIMIT.read(request), in_pages, cursor, text or None, _sorting(request))


def _sorting(request: Request) -> Sorting | None:
    order = SORT.read(request)
    sorting = Sorting(
        order or BY_SUBMISSION,
        SUBMITTED_AFTER.read(request),
        SUBMITTED_BEFORE.read(request),
        RETRY_OF.read(request) or None,
    )
    narrowed = [name for name in _SORTED_BY if getattr(sorting, name) is not None]
    if order != BY_CHANGE:
        return sorting if order or narrowed else None
    if narrowed:
        others = ", ".join(one for one in ORDERS if one != BY_CHANGE)
        raise SORT.refuse(f"{BY_CHANGE} cannot be combined with {narrowed[0]}: sort by one of {others}.")
    return None


def id_prefix_asked(request: Request) -> str:
    """Empty: not asked for."""
    prefix = ID_PREFIX.read(request)
    if prefix and len(prefix) < ID_PREFIX_CHARS_MIN:
        message = f"must have at least {ID_PREFIX_CHARS_MIN} characters."
        raise Invalid.at(["query", ID_PREFIX.name], message, err_id=INVALID_LIST)
    return prefix


def watch_asked(request: Request) -> WatchParams:
    return WatchParams(
        records=bool(INCLUDE.read(request)),
        since=SINCE.read(request),
        timeout_sec=TIMEOUT_SEC.read(request),
        last_event_id=LAST_EVENT_ID.read(request) or LAST_ID_IN_QUERY.read(request) or None,
    )
