"""`/jobs` and their tags. Logs, streams and sockets are in their own files."""

from __future__ import annotations

import contextlib
from urllib.parse import unquote

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Scope

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import NotFound
from pyoco_server.http_api.context import ready_gateway
from pyoco_server.http_api.faces.jobs import log_routes, request_context, socket, wire
from pyoco_server.http_api.faces.jobs.errors import job_not_found
from pyoco_server.http_api.faces.jobs.schemas import SCHEMAS
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.requests.bodies import params_body, read_aside, small_body
from pyoco_server.http_api.requests.idempotency import key_of, key_param, once_answer
from pyoco_server.http_api.responses.json import json_answer
from pyoco_server.http_api.routing.face import Face
from pyoco_server.http_api.routing.operation import Content, Operation, json_body, json_of
from pyoco_server.http_api.routing.schemas import TEXT, array, ref
from pyoco_server.lifecycle.events import RunSubmitted
from pyoco_server.lifecycle.run import Run
from pyoco_server.operations.idempotency.keyed_request import KeyedRequest, RecordedAnswer
from pyoco_server.operations.runs import cancel, erase, query, run_list, submit, tagging
from pyoco_server.store.runs.log import StoredRun


async def create_job(request: Request) -> Response:
    gateway = ready_gateway(request)
    body = await params_body(request, gateway.config)
    submission = await read_aside(body, _checked, body, request, gateway.config)
    key = key_of(request)
    if key is None:
        return created(await submit.submit(gateway.store, submission))
    async with KeyedRequest(gateway.store, key, body, needs_room=True) as keyed:
        if keyed.earlier is not None:
            return once_answer(keyed.earlier)
        reservation = keyed.reservation
        submission = replace(submission, run_id=reservation.resource_id)
        answer = created(await submit.submit(gateway.store, submission, commit_id=reservation.command_id))
        recorded = RecordedAnswer(
            status=201, body=bytes(answer.body), headers={"Location": answer.headers["location"]}
        )
        return once_answer(await keyed.remember(recorded))


def _checked(body: bytes, request: Request, config: NatsBackendConfig) -> RunSubmitted:
    wanted = wire.submission(body, request.headers, caller_of(request), config.jobs_flow)
    return submit.validate(wanted, config)


def created(stored: StoredRun) -> Response:
    return json_answer(wire.job(stored.run), 201, {"Location": f"/jobs/{stored.run.run_id}"})


async def get_job(request: Request) -> Response:
    return json_answer(wire.job((await request_context.found_job(request, whole=True)).run))


async def list_jobs(request: Request) -> Response:
    gateway = ready_gateway(request)
    asked = request_context.list_asked(request)
    runs, token = await run_list.newest_runs(
        gateway.store, gateway.read_model, asked.wanted, asked.limit, asked.token
    )
    stored = await query.get_many(gateway.store, [run.run_id for run in runs])
    shown = {"jobs": _with_tasks(runs, stored)}
    return json_answer(shown if token is None else shown | {"nextToken": token})


async def delete_job(request: Request) -> Response:
    """Cancel or erase. A job that does not exist is already as the caller wants it: 204."""
    gateway = ready_gateway(request)
    caller = caller_of(request)
    purge = request_context.PURGE.read(request)
    with contextlib.suppress(NotFound):
        job_id = request_context.job_id_of(request)
        if purge:
            await erase.erase_run(gateway.store, job_id, by=caller.principal, tenant_id=caller.tenant_id)
        else:
            await cancel.cancel_run(gateway.store, job_id, by=caller.principal, tenant_id=caller.tenant_id)
    return Response(status_code=204)


async def get_tags(request: Request) -> Response:
    return json_answer(list((await request_context.found_job(request)).run.tags))


async def add_tag(request: Request) -> Response:
    gateway = ready_gateway(request)
    tag = wire.tag_asked(await small_body(request), request.headers)
    with job_not_found():
        stored = await tagging.add_tag(
            gateway.store, request_context.job_id_of(request), tag, tenant_id=caller_of(request).tenant_id
        )
    return json_answer(list(stored.run.tags))


async def remove_tag(request: Request) -> Response:
    gateway = ready_gateway(request)
    tag = request_context.TAG.read(request)
    with job_not_found():
        await tagging.remove_tag(
            gateway.store, request_context.job_id_of(request), tag, tenant_id=caller_of(request).tenant_id
        )
    return Response(status_code=204)


class _IdWithSlash(Route):
    """`/jobs/a%2Fb`: the router sees the decoded path, where an id with a slash looks like a longer path."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] != "http" or scope["method"] not in (self.methods or ()):
            return Match.NONE, {}
        above, _, last = scope.get("raw_path", b"").decode("latin-1").partition("?")[0].rpartition("/")
        if "%2f" not in last.lower() or above not in ("/jobs", f"{scope.get('root_path', '')}/jobs"):
            return Match.NONE, {}
        return Match.FULL, {"endpoint": self.endpoint, "path_params": {"job_id": unquote(last)}}


_TAGS = json_of("All its tags, in the order they were added", array(TEXT))
_DONE = Content("Done, or nothing to do")

FACE = Face(
    tag="jobs",
    error="JobError",
    operations=[
        Operation(
            "POST",
            "/jobs",
            create_job,
            "Create a job",
            {201: json_of("Created and queued; `Location` says where", ref("Job"))},
            [key_param()],
            json_body(ref("JobRequest")),
            errors=[400, 409, 413, 415, 422],
        ),
        Operation(
            "GET",
            "/jobs",
            list_jobs,
            "List jobs, newest first",
            {200: json_of("A page; without `nextToken` it is the last", ref("JobPage"))},
            [request_context.TAGS, request_context.STATUS, request_context.LIMIT, request_context.NEXT_TOKEN],
            errors=[400, 422],
        ),
        Operation(
            "GET",
            "/jobs/{job_id}",
            get_job,
            "One job",
            {200: json_of("The job", ref("Job"))},
            [request_context.JOB_ID],
            errors=[404],
        ),
        Operation(
            "DELETE",
            "/jobs/{job_id}",
            delete_job,
            "Cancel a job; with `purge` erase it",
            {204: _DONE},
            [request_context.JOB_ID, request_context.PURGE],
            errors=[409, 422],
            description="204 also for a job that is over, unknown or gone. 409 for a purge of a live one.",
        ),
        Operation(
            "GET",
            "/jobs/{job_id}/tags",
            get_tags,
            "The tags of a job, in the order they were added",
            {200: _TAGS},
            [request_context.JOB_ID],
            errors=[404],
            name="get_job_tags",
        ),
        Operation(
            "POST",
            "/jobs/{job_id}/tags",
            add_tag,
            "Add a tag; a tag that the job has changes nothing",
            {200: _TAGS},
            [request_context.JOB_ID],
            json_body(ref("TagRequest")),
            errors=[400, 404, 413, 415, 422],
            name="add_job_tag",
        ),
        Operation(
            "DELETE",
            "/jobs/{job_id}/tags/{tag:path}",  # a tag may hold slashes
            remove_tag,
            "Remove a tag; a tag that the job does not have changes nothing",
            {204: _DONE},
            [request_context.JOB_ID, request_context.TAG],
            errors=[404],
            name="remove_job_tag",
        ),
        *log_routes.OPERATIONS,
        *socket.OPERATIONS,
    ],
    schemas=SCHEMAS,
)
# Registered before the routes of the face.
BEFORE: list[BaseRoute] = [
    _IdWithSlash("/jobs/{job_id}", get_job, methods=["GET"]),
    _IdWithSlash("/jobs/{job_id}", delete_job, methods=["DELETE"]),
]


def _with_tasks(runs: list[Run], stored: list[StoredRun]) -> list[dict[str, object]]:
    """The read model has the runs and their status; their tasks are in the snapshots."""
    tasks = {one.run.run_id: one.run for one in stored}
    shown = []
    for run in runs:
        known = tasks.get(run.run_id)
        if known is not None:  # else it was just erased
            tasked = replace(run, tasks=known.tasks, last_tasks=known.last_tasks, lacks=known.lacks)
            shown.append(wire.job(tasked))
    return shown
