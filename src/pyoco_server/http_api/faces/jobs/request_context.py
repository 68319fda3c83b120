"""Shared by the routes of the jobs face: the job in the path, and query parameters."""

from __future__ import annotations

from typing import NamedTuple

from starlette.requests import HTTPConnection

from pyoco_server.errors import Invalid
from pyoco_server.http_api.context import ready_gateway
from pyoco_server.http_api.faces.jobs.errors import JobNotFound, job_not_found
from pyoco_server.http_api.faces.jobs.wire import STAGE_OF
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.routing.kinds import ChoiceKind, FlagKind, IntegerKind, TextKind
from pyoco_server.http_api.routing.params import ListParam, Param, path, text
from pyoco_server.names import TAGS_MAX, check_tag, is_run_id
from pyoco_server.operations.runs import query
from pyoco_server.read_model.tag_table import TagFilter
from pyoco_server.store.runs.log import StoredRun

LIMIT_DEFAULT, LIMIT_MAX = 50, 200
JOB_ID = path("job_id")
TAG = path("tag")
TAGS = ListParam("tag", TextKind(), "Only jobs with all of these tags.")
STATUS = Param[str | None]("status", ChoiceKind(tuple(STAGE_OF)), None, "Only jobs with this status.")
LIMIT = Param("limit", IntegerKind(1, LIMIT_MAX), LIMIT_DEFAULT, "How many at most.")
NEXT_TOKEN = text("nextToken", "`nextToken` of the previous page; valid for the same filters only.")
PURGE = Param("purge", FlagKind(), False, "Erase the job.")


class JobListParams(NamedTuple):
    wanted: TagFilter
    limit: int
    token: str | None


def job_id_of(request: HTTPConnection) -> str:
    """A text that cannot be an id counts as an unknown one."""
    job_id = request.path_params["job_id"]
    if not is_run_id(job_id):
        raise JobNotFound
    return str(job_id)


async def found_job(request: HTTPConnection, *, whole: bool = False) -> StoredRun:
    """The run of the job in the path, if it exists and belongs to the caller."""
    gateway, tenant_id = ready_gateway(request), caller_of(request).tenant_id
    with job_not_found():
        return await query.get_run(gateway.store, job_id_of(request), tenant_id=tenant_id, whole=whole)


def list_asked(request: HTTPConnection) -> JobListParams:
    status = STATUS.read(request)
    tags = tuple(dict.fromkeys(check_tag(text) for text in TAGS.read(request)))
    if len(tags) > TAGS_MAX:
        raise Invalid.at(["query", TAGS.name], f"At most {TAGS_MAX} tags: no job has more.")
    wanted = TagFilter(tags, STAGE_OF[status].value if status else None, caller_of(request).tenant_id)
    return JobListParams(wanted, LIMIT.read(request), NEXT_TOKEN.read(request))
