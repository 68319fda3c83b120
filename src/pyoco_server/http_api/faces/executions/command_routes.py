"""`POST /executions` and below: commands. The first answer is 202, a repetition gets it again with 200."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.errors import NotFound
from pyoco_server.http_api.context import ready_gateway
from pyoco_server.http_api.faces.executions import params, request_context
from pyoco_server.http_api.faces.executions.commands import FORMS, CommandForm
from pyoco_server.http_api.faces.executions.creation import submission_of
from pyoco_server.http_api.faces.executions.errors import ExecutionNotFound, NodeNotFound
from pyoco_server.http_api.faces.executions.event_history import event_ids
from pyoco_server.http_api.faces.executions.rejected import rejection
from pyoco_server.http_api.faces.executions.requests import CreateExecution, Envelope, body_of, envelope_of
from pyoco_server.http_api.middleware.addresses import path_of
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.requests.bodies import read_aside
from pyoco_server.http_api.routing.operation import Content, Operation, Serve, json_body, json_of
from pyoco_server.http_api.routing.schemas import TEXT, ref
from pyoco_server.lifecycle.commit_meta import Actor, ActorKind, CommitMeta
from pyoco_server.operations.executions.drive import (
    RunCommand,
    UnknownTask,
    check_target,
    create,
    drive,
)
from pyoco_server.operations.idempotency.key_scope import key_for
from pyoco_server.operations.idempotency.keyed_request import KeyedAnswer, KeyedRequest, RecordedAnswer
from pyoco_server.operations.idempotency.request_digest import digest_of

ACCEPTED, REPLAYED = 202, 200


async def create_execution(request: Request) -> Response:
    gateway, caller = ready_gateway(request), caller_of(request)
    envelope = await envelope_of(request, bytes_max=gateway.config.params_max_bytes)
    wanted, value = await read_aside(envelope.raw, body_of, envelope.raw, CreateExecution)
    digest = await digest_of(value, size=len(envelope.raw))
    submission = await submission_of(gateway.store, caller, wanted, envelope.correlation_id, request.headers)
    key = key_for(caller, request.method, path_of(request.scope), envelope.key)
    meta = CommitMeta(actor=Actor(ActorKind.USER, caller.principal), correlation_id=envelope.correlation_id)
    async with KeyedRequest(gateway.store, key, digest, needs_room=True) as keyed:
        if keyed.earlier is not None:
            return _answer(keyed.earlier, envelope)
        reservation = keyed.reservation
        created = await create(gateway.commands, submission, meta, reservation)
        accepted = RecordedAnswer(
            status=ACCEPTED,
            body=_accepted(created.run_id, "CreateExecution", envelope),
            headers={"Location": f"/executions/{created.run_id}"},
            event_ids=event_ids(None, [created], reservation.command_id),
        )
        return _answer(await keyed.remember(accepted), envelope)


def _endpoint(form: CommandForm) -> Serve:
    async def command(request: Request) -> Response:
        return await _command(request, form)

    return command


async def _command(request: Request, form: CommandForm) -> Response:
    gateway, caller = ready_gateway(request), caller_of(request)
    envelope = await envelope_of(request, bytes_max=gateway.config.params_max_bytes)
    body, value = await read_aside(envelope.raw, body_of, envelope.raw, form.body)
    execution_id = request_context.execution_id_of(request)
    node_id = str(request.path_params["nodeId"]) if form.is_of_node else None
    asked = RunCommand(
        run_id=execution_id,
        tenant_id=caller.tenant_id,
        name=form.name,
        command=form.build(caller.principal, node_id or "", body),
        meta=CommitMeta(actor=Actor(form.actor, caller.principal), correlation_id=envelope.correlation_id),
        task=node_id,
    )
    key = key_for(caller, request.method, path_of(request.scope), envelope.key)
    digest = await digest_of(value, size=len(envelope.raw))
    try:
        await check_target(gateway.commands, asked)
        async with KeyedRequest(gateway.store, key, digest, resource_id=execution_id) as keyed:
            if keyed.earlier is not None:
                return _answer(keyed.earlier, envelope)
            reservation = keyed.reservation
            applied = await drive(gateway.commands, asked, reservation)
            assert applied.after is not None
            if applied.refused is not None:
                raise rejection(form.name, applied.refused.reason, applied.after.run, node_id)
            before = applied.before.run if applied.before else None
            accepted = RecordedAnswer(
                status=ACCEPTED,
                body=_accepted(execution_id, form.name, envelope),
                event_ids=event_ids(before, applied.events, reservation.command_id),
            )
            return _answer(await keyed.remember(accepted), envelope)
    except UnknownTask:
        raise NodeNotFound(request_context.shown(node_id or "")) from None
    except NotFound:
        raise ExecutionNotFound(execution_id) from None


def _accepted(execution_id: str, command: str, envelope: Envelope) -> bytes:
    """The body that is stored: without the key, which only the caller may read."""
    return msgspec.json.encode(
        {
            "executionId": execution_id,
            "command": command,
            "accepted": True,
            "correlationId": envelope.correlation_id,
        }
    )


def _answer(given: KeyedAnswer, envelope: Envelope) -> Response:
    key = b',"idempotencyKey":' + msgspec.json.encode(envelope.key) + b"}"
    headers = given.headers | ({"Idempotency-Replayed": "true"} if given.replayed else {})
    status = REPLAYED if given.replayed else given.status
    return Response(given.body[:-1] + key, status, headers, media_type="application/json")


def _accepted_as(**more: Any) -> dict[int, Content]:
    schema = ref("ExecutionCommandAccepted")
    return {
        ACCEPTED: json_of("Accepted", schema, **more),
        REPLAYED: json_of("Accepted before: the same answer again", schema, **more),
    }


_REFUSED = (404, 409, 413, 415, 422)


def _operation(form: CommandForm) -> Operation:
    node = [params.NODE_ID] if form.is_of_node else []
    needs_body = any(field.required for field in msgspec.structs.fields(form.body))
    return Operation(
        "POST",
        form.path,
        _endpoint(form),
        form.name,
        _accepted_as(),
        [params.EXECUTION_ID, *node, *params.COMMAND_HEADERS],
        json_body(ref(form.body.__name__), required=needs_body),
        errors=_REFUSED,
        name=form.name,
        is_hot=True,
    )


OPERATIONS = [
    Operation(
        "POST",
        "/executions",
        create_execution,
        "CreateExecution: of a registered graph, or of a flow (`flow:<name>`) on workers",
        _accepted_as(headers={"Location": {"schema": TEXT}}),
        params.COMMAND_HEADERS,
        json_body(ref(CreateExecution.__name__)),
        errors=_REFUSED,
        name="CreateExecution",
        is_hot=True,
    ),
    *map(_operation, FORMS),
]
