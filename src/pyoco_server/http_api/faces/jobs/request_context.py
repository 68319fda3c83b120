"""What the routes of the jobs face have in common: the job in the path, and what query strings ask."""

from __future__ import annotations

import re
from typing import NamedTuple

from starlette.requests import HTTPConnection

from pyoco_server.errors import Invalid, NotFound
from pyoco_server.http_api.context import ready_gateway as ready_gateway
from pyoco_server.http_api.faces.jobs.errors import JobNotFound
from pyoco_server.http_api.faces.jobs.wire import STAGE_OF
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.names import TAGS_MAX, check_tag, is_run_id
from pyoco_server.operations.runs import query
from pyoco_server.operations.runs.query import StoredRun
from pyoco_server.operations.runs.run_list import Tagged

LIMIT_DEFAULT, LIMIT_MAX = 50, 200
_FEW = re.compile(r"[0-9]{1,3}")
_FLAGS = {"true": True, "1": True, "false": False, "0": False}


class JobListParams(NamedTuple):
    wanted: Tagged
    limit: int
    token: str | None


def job_id_of(request: HTTPConnection) -> str:
    """What cannot be an id is one that does not exist."""
    job_id = request.path_params["job_id"]
    if not is_run_id(job_id):
        raise JobNotFound
    return str(job_id)


async def found_job(request: HTTPConnection, *, whole: bool = False) -> StoredRun:
    """The run behind the job in the path, if it is there and the caller's."""
    gateway, tenant_id = ready_gateway(request), caller_of(request).tenant_id
    try:
        return await query.get_run(gateway.store, job_id_of(request), tenant_id=tenant_id, whole=whole)
    except NotFound:
        raise JobNotFound from None


def list_asked(request: HTTPConnection) -> JobListParams:
    asked = request.query_params
    status = asked.get("status")
    if status is not None and status not in STAGE_OF:
        raise _wrong("status", f"status must be one of {', '.join(STAGE_OF)}.")
    tags = tuple(dict.fromkeys(check_tag(text) for text in asked.getlist("tag")))
    if len(tags) > TAGS_MAX:
        raise _wrong("tag", f"At most {TAGS_MAX} tags: no job has more.")
    wanted = Tagged(tags, STAGE_OF[status].value if status else None, caller_of(request).tenant_id)
    return JobListParams(wanted, _limit(asked.get("limit")), asked.get("nextToken"))


def flag(request: HTTPConnection, name: str) -> bool:
    given = request.query_params.get(name, "false")
    if given not in _FLAGS:
        raise _wrong(name, f"{name} must be true or false.")
    return _FLAGS[given]


def _limit(given: str | None) -> int:
    if given is None:
        return LIMIT_DEFAULT
    if not _FEW.fullmatch(given) or not 1 <= int(given) <= LIMIT_MAX:
        raise _wrong("limit", f"limit must be a whole number from 1 to {LIMIT_MAX}.")
    return int(given)


def _wrong(name: str, message: str) -> Invalid:
    return Invalid(message, details=[{"loc": ["query", name], "msg": message, "type": "value_error"}])
