"""`/jobs` and their tags: HTTP in and out. Logs, streams and sockets have files of their own."""

from __future__ import annotations

from urllib.parse import unquote

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Scope

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import NotFound
from pyoco_server.http_api.faces.jobs import log_routes, request_context, socket, wire
from pyoco_server.http_api.faces.jobs.errors import JobNotFound
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.requests.bodies import params_body, read_aside, small_body
from pyoco_server.http_api.requests.idempotency import key_of, once_answer
from pyoco_server.http_api.responses.json import json_answer
from pyoco_server.lifecycle.events import RunSubmitted
from pyoco_server.lifecycle.run import Run
from pyoco_server.operations.idempotency.once import RecordedAnswer, Reservation, once
from pyoco_server.operations.runs import cancel, erase, query, run_list, submit, tagging
from pyoco_server.operations.runs.query import StoredRun


async def create_job(request: Request) -> Response:
    gateway = request_context.ready_gateway(request)
    body = await params_body(request, gateway.config)
    submission = await read_aside(body, _checked, body, request, gateway.config)
    key = key_of(request)
    if key is None:
        return created(await submit.submit(gateway.store, submission))

    async def begin(reservation: Reservation) -> RecordedAnswer:
        begun = replace(submission, run_id=reservation.resource_id)
        answer = created(await submit.submit(gateway.store, begun, commit_id=reservation.command_id))
        return RecordedAnswer(
            status=201, body=bytes(answer.body), headers={"Location": answer.headers["location"]}
        )

    return once_answer(await once(gateway.store, key, body, begin, needs_room=True))


def _checked(body: bytes, request: Request, config: NatsBackendConfig) -> RunSubmitted:
    wanted = wire.submission(body, request.headers, caller_of(request), config.jobs_flow)
    return submit.validate(wanted, config)


def created(stored: StoredRun) -> Response:
    return json_answer(wire.job(stored.run), 201, {"Location": f"/jobs/{stored.run.run_id}"})


async def get_job(request: Request) -> Response:
    return json_answer(wire.job((await request_context.found_job(request, whole=True)).run))


async def list_jobs(request: Request) -> Response:
    gateway = request_context.ready_gateway(request)
    asked = request_context.list_asked(request)
    runs, token = await run_list.newest_runs(
        gateway.store, gateway.read_model, asked.wanted, asked.limit, asked.token
    )
    stored = await query.get_many(gateway.store, [run.run_id for run in runs])
    shown = {"jobs": _with_tasks(runs, stored)}
    return json_answer(shown if token is None else shown | {"nextToken": token})


async def delete_job(request: Request) -> Response:
    """Cancels. Whatever is not there, or not any more, is as the caller wants it: 204 always."""
    gateway = request_context.ready_gateway(request)
    caller = caller_of(request)
    purge = request_context.flag(request, "purge")
    try:
        job_id = request_context.job_id_of(request)
        if purge:
            await erase.erase_run(gateway.store, job_id, by=caller.principal, tenant_id=caller.tenant_id)
        else:
            await cancel.cancel_run(gateway.store, job_id, by=caller.principal, tenant_id=caller.tenant_id)
    except NotFound:
        pass
    return Response(status_code=204)


async def get_tags(request: Request) -> Response:
    return json_answer(list((await request_context.found_job(request)).run.tags))


async def add_tag(request: Request) -> Response:
    gateway = request_context.ready_gateway(request)
    tag = wire.tag_asked(await small_body(request), request.headers)
    try:
        stored = await tagging.add_tag(
            gateway.store, request_context.job_id_of(request), tag, tenant_id=caller_of(request).tenant_id
        )
    except NotFound:
        raise JobNotFound from None
    return json_answer(list(stored.run.tags))


async def remove_tag(request: Request) -> Response:
    gateway = request_context.ready_gateway(request)
    tag = request.path_params["tag"]
    try:
        await tagging.remove_tag(
            gateway.store, request_context.job_id_of(request), tag, tenant_id=caller_of(request).tenant_id
        )
    except NotFound:
        raise JobNotFound from None
    return Response(status_code=204)


class _IdWithSlash(Route):
    """`/jobs/a%2Fb`: the router sees a decoded path, where an id with a slash looks like a deeper address."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] != "http" or scope["method"] not in (self.methods or ()):
            return Match.NONE, {}
        above, _, last = scope.get("raw_path", b"").decode("latin-1").partition("?")[0].rpartition("/")
        if "%2f" not in last.lower() or above not in ("/jobs", f"{scope.get('root_path', '')}/jobs"):
            return Match.NONE, {}
        return Match.FULL, {"endpoint": self.endpoint, "path_params": {"job_id": unquote(last)}}


ROUTES: list[BaseRoute] = [
    _IdWithSlash("/jobs/{job_id}", get_job, methods=["GET"]),
    _IdWithSlash("/jobs/{job_id}", delete_job, methods=["DELETE"]),
    Route("/jobs", create_job, methods=["POST"]),
    Route("/jobs", list_jobs, methods=["GET"]),
    Route("/jobs/{job_id}", get_job, methods=["GET"]),
    Route("/jobs/{job_id}", delete_job, methods=["DELETE"]),
    Route("/jobs/{job_id}/tags", get_tags, methods=["GET"]),
    Route("/jobs/{job_id}/tags", add_tag, methods=["POST"]),
    # A tag may hold slashes.
    Route("/jobs/{job_id}/tags/{tag:path}", remove_tag, methods=["DELETE"]),
    *log_routes.ROUTES,
    *socket.ROUTES,
]


def _with_tasks(runs: list[Run], stored: list[StoredRun]) -> list[dict[str, object]]:
    """The list says which runs and how they stand; what their tasks have come to is in their snapshots."""
    tasks = {one.run.run_id: one.run for one in stored}
    shown = []
    for run in runs:
        known = tasks.get(run.run_id)
        if known is not None:  # else it was erased this moment
            tasked = replace(run, tasks=known.tasks, last_tasks=known.last_tasks, lacks=known.lacks)
            shown.append(wire.job(tasked))
    return shown
