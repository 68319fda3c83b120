"""`POST /executions` and below: commands. The first answer is 202, a repetition gets it again with 200."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.errors import Invalid, NotFound
from pyoco_server.http_api.context import Store, ready_gateway
from pyoco_server.http_api.faces.executions import params, wire
from pyoco_server.http_api.faces.executions.commands import FORMS, CommandForm
from pyoco_server.http_api.faces.executions.errors import ExecutionNotFound, NodeNotFound, refusal
from pyoco_server.http_api.faces.executions.event_history import event_ids
from pyoco_server.http_api.faces.executions.graphs.document import GRAPH_ID
from pyoco_server.http_api.faces.executions.requests import (
    CreateExecution,
    Envelope,
    body_of,
    envelope_of,
    execution_id_of,
    shown,
)
from pyoco_server.http_api.middleware.addresses import path_of
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.middleware.tracing_headers import traceparent_of
from pyoco_server.http_api.requests.bodies import read_aside
from pyoco_server.http_api.routing.operation import Content, Operation, Serve, json_body, json_of
from pyoco_server.http_api.routing.schemas import TEXT, ref
from pyoco_server.lifecycle.commit_meta import Actor, ActorKind, CommitMeta
from pyoco_server.lifecycle.events import RunSubmitted
from pyoco_server.lifecycle.status import Driver
from pyoco_server.operations.executions import graphs
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
from pyoco_server.operations.identity.callers import Caller
from pyoco_server.operations.runs.submit import Submission, validate

ACCEPTED, REPLAYED = 202, 200


async def create_execution(request: Request) -> Response:
    gateway, caller = ready_gateway(request), caller_of(request)
    envelope = await envelope_of(request, bytes_max=gateway.config.params_max_bytes)
    wanted, value = await read_aside(envelope.raw, body_of, envelope.raw, CreateExecution)
    digest = await digest_of(value, size=len(envelope.raw))
    submission = await _submission_of(gateway.store, caller, wanted, envelope.correlation_id, request.headers)
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


async def _submission_of(
    store: Store, caller: Caller, wanted: CreateExecution, correlation_id: str, headers: Mapping[str, str]
) -> RunSubmitted:
    """Valid, without an id. Raises for a graph that does not exist."""
    is_flow = wanted.graphId.startswith(wire.FLOW)
    if not is_flow and wanted.tag is not None:
        raise Invalid.at(["body", "tag"], "tag says which workers run a flow:…; it means nothing here.")
    if is_flow and wanted.graphVersion is not None:
        raise Invalid.at(["body", "graphVersion"], "graphVersion is of registered graphs; a flow:… has none.")
    submission = validate(_submission(caller, wanted, correlation_id, headers), store.config)
    if is_flow:
        return submission
    if not GRAPH_ID.fullmatch(wanted.graphId):
        raise graphs.GraphNotFound("There is no such graph. List them with GET /graphs.")
    stored = await graphs.find(store, caller, wanted.graphId, wanted.graphVersion)
    return replace(submission, driver=Driver.CLIENT, graph=stored.graph, tags=[])


def _submission(
    caller: Caller, wanted: CreateExecution, correlation_id: str, headers: Mapping[str, str]
) -> Submission:
    return Submission(
        flow_name=wire.flow_name_of(wanted.graphId),
        params=wanted.input,
        tag=wanted.tag,
        tenant_id=caller.tenant_id,
        api_key_id=caller.api_key_id,
        correlation_id=correlation_id,
        traceparent=traceparent_of(headers),
    )


def _endpoint(form: CommandForm) -> Serve:
    async def command(request: Request) -> Response:
        return await _command(request, form)

    return command


async def _command(request: Request, form: CommandForm) -> Response:
    gateway, caller = ready_gateway(request), caller_of(request)
    envelope = await envelope_of(request, bytes_max=gateway.config.params_max_bytes)
    body, value = await read_aside(envelope.raw, body_of, envelope.raw, form.body)
    execution_id = execution_id_of(request)
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
                raise refusal(form.name, applied.refused, applied.after.run, node_id)
            before = applied.before.run if applied.before else None
            accepted = RecordedAnswer(
                status=ACCEPTED,
                body=_accepted(execution_id, form.name, envelope),
                event_ids=event_ids(before, applied.events, reservation.command_id),
            )
            return _answer(await keyed.remember(accepted), envelope)
    except UnknownTask:
        raise NodeNotFound(shown(node_id or "")) from None
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


def _accepted_as(**more: object) -> dict[int, Content]:
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
