"""`POST /executions` and everything below it: commands, accepted with 202, given again with 200."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pyoco_server.errors import NotFound
from pyoco_server.http_api.faces.executions import request_context
from pyoco_server.http_api.faces.executions.commands import FORMS, CommandForm
from pyoco_server.http_api.faces.executions.creation import submission_of
from pyoco_server.http_api.faces.executions.errors import ExecutionNotFound, NodeNotFound
from pyoco_server.http_api.faces.executions.event_history import event_ids
from pyoco_server.http_api.faces.executions.rejected import rejection
from pyoco_server.http_api.faces.executions.requests import CreateExecution, Envelope, body_of, envelope_of
from pyoco_server.http_api.middleware.addresses import path_of
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.requests.bodies import read_aside
from pyoco_server.lifecycle.commit_meta import Actor, ActorKind, CommitMeta
from pyoco_server.operations.executions.drive import (
    Applied,
    KeyedCommand,
    Once,
    RecordedAnswer,
    UnknownTask,
    create,
    drive,
)
from pyoco_server.operations.idempotency.key_scope import key_for
from pyoco_server.operations.idempotency.request_digest import fingerprint_of
from pyoco_server.operations.runs.query import StoredRun

ACCEPTED, REPLAYED = 202, 200

Endpoint = Callable[[Request], Awaitable[Response]]


async def create_execution(request: Request) -> Response:
    gateway, caller = request_context.ready_gateway(request), caller_of(request)
    envelope = await envelope_of(request, bytes_max=gateway.config.params_max_bytes)
    wanted, said = await read_aside(envelope.raw, body_of, envelope.raw, CreateExecution)
    asked = await fingerprint_of(said, size=len(envelope.raw))
    make = await submission_of(gateway.store, caller, wanted, envelope.correlation_id, request.headers)

    def tell(stored: StoredRun, command_id: str) -> RecordedAnswer:
        ids = event_ids(None, [make(stored.run.run_id)], command_id)
        place = {"Location": f"/executions/{stored.run.run_id}"}
        return RecordedAnswer(
            status=ACCEPTED,
            body=_accepted(stored.run.run_id, "CreateExecution", envelope),
            headers=place,
            event_ids=ids,
        )

    given = await create(
        gateway.desk,
        key=key_for(caller, request.method, path_of(request.scope), envelope.key),
        asked=asked,
        submission=make,
        meta=lambda command_id: CommitMeta(
            actor=Actor(ActorKind.USER, caller.principal),
            correlation_id=envelope.correlation_id,
            causation_id=command_id,
        ),
        tell=tell,
    )
    return _answered(given, envelope)


def _endpoint(form: CommandForm) -> Endpoint:
    async def command(request: Request) -> Response:
        return await _command(request, form)

    return command


async def _command(request: Request, form: CommandForm) -> Response:
    gateway, caller = request_context.ready_gateway(request), caller_of(request)
    envelope = await envelope_of(request, bytes_max=gateway.config.params_max_bytes)
    body, said = await read_aside(envelope.raw, body_of, envelope.raw, form.body)
    execution_id = request_context.execution_id_of(request)
    node_id = str(request.path_params["nodeId"]) if form.is_of_node else None
    asked = KeyedCommand(
        run_id=execution_id,
        name=form.name,
        command=form.build(caller.principal, node_id or "", body),
        key=key_for(caller, request.method, path_of(request.scope), envelope.key),
        asked=await fingerprint_of(said, size=len(envelope.raw)),
        meta=CommitMeta(actor=Actor(form.actor, caller.principal), correlation_id=envelope.correlation_id),
        task=node_id,
    )

    def tell(applied: Applied, command_id: str) -> RecordedAnswer:
        assert applied.after is not None
        if applied.refused is not None:
            raise rejection(form.name, applied.refused.reason, applied.after.run, node_id)
        ids = event_ids(applied.before.run if applied.before else None, applied.events, command_id)
        return RecordedAnswer(
            status=ACCEPTED, body=_accepted(execution_id, form.name, envelope), event_ids=ids
        )

    try:
        given = await drive(gateway.desk, asked, tell)
    except UnknownTask:
        raise NodeNotFound(request_context.shown(node_id or "")) from None
    except NotFound:
        raise ExecutionNotFound(execution_id) from None
    return _answered(given, envelope)


def _accepted(execution_id: str, command: str, envelope: Envelope) -> bytes:
    """As it is remembered: without the key, which is nobody's but the caller's."""
    return msgspec.json.encode(
        {
            "executionId": execution_id,
            "command": command,
            "accepted": True,
            "correlationId": envelope.correlation_id,
        }
    )


def _answered(given: Once, envelope: Envelope) -> Response:
    key = b',"idempotencyKey":' + msgspec.json.encode(envelope.key) + b"}"
    headers = given.headers | ({"Idempotency-Replayed": "true"} if given.replayed else {})
    status = REPLAYED if given.replayed else given.status
    return Response(given.body[:-1] + key, status, headers, media_type="application/json")


_ENDPOINTS = {form.path: _endpoint(form) for form in FORMS}
_ON_ONE = {form.path.rpartition("/")[2]: _ENDPOINTS[form.path] for form in FORMS if not form.is_of_node}
_ON_NODE = {form.path.rpartition("/")[2]: _ENDPOINTS[form.path] for form in FORMS if form.is_of_node}

ROUTES = [
    Route("/executions", create_execution, methods=["POST"]),
    *(Route(path, endpoint, methods=["POST"]) for path, endpoint in _ENDPOINTS.items()),
]


def find_hot(method: str, path: str) -> tuple[Endpoint, dict[str, str]] | None:
    """For `hot_routes`: the same functions without a router in between. Odd paths are left to the router."""
    if method != "POST":
        return None
    match path.split("/"):
        case ["", "executions"]:
            return create_execution, {}
        case ["", "executions", execution_id, verb] if execution_id and verb in _ON_ONE:
            return _ON_ONE[verb], {"executionId": execution_id}
        case ["", "executions", execution_id, "nodes", node_id, verb] if verb in _ON_NODE:
            params = {"executionId": execution_id, "nodeId": node_id}
            return (_ON_NODE[verb], params) if execution_id and node_id else None
    return None
