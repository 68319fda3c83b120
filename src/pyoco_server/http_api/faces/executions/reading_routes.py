"""`GET /executions…`: the present and an earlier state, events, why, verification, and the list."""

from __future__ import annotations

import asyncio

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.http_api.context import ready_gateway
from pyoco_server.http_api.faces.executions import params, requests, wire
from pyoco_server.http_api.faces.executions.errors import ExecutionNotFound, execution_must_exist
from pyoco_server.http_api.faces.executions.event_history import EventHistory
from pyoco_server.http_api.faces.executions.state import state_at
from pyoco_server.http_api.faces.executions.why_texts import explained
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.requests.bodies import ASIDE_BYTES
from pyoco_server.http_api.responses.json import json_answer
from pyoco_server.http_api.routing.operation import Operation, json_of
from pyoco_server.http_api.routing.schemas import BOOLEAN, TEXT, array, count, record, ref
from pyoco_server.json_value import JsonObject
from pyoco_server.lifecycle.run import Run
from pyoco_server.operations.executions import drive
from pyoco_server.operations.runs import query, verify, why
from pyoco_server.read_model.run_table import Filter
from pyoco_server.texts import choose_language

_decode = msgspec.json.decode


async def get_execution(request: Request) -> Response:
    return json_answer(wire.execution(await _latest(request)))


async def _latest(request: Request) -> Run:
    gateway, execution_id = ready_gateway(request), requests.execution_id_of(request)
    with execution_must_exist(execution_id):
        return await drive.latest(gateway.commands, execution_id, caller_of(request).tenant_id)


async def list_events(request: Request) -> Response:
    after, limit = params.AFTER_SEQ.read(request), params.EVENTS_LIMIT.read(request)
    history = await _history(request)
    shown = history.events[after : after + limit]
    answer = {
        "executionId": requests.execution_id_of(request),
        "events": [msgspec.Raw(one) for one in shown],
        "hasMore": after + limit < len(history.events),
    }
    return json_answer(answer)


async def get_state(request: Request) -> Response:
    at_seq = params.AT_SEQ.read(request)
    history = await _history(request)
    last = len(history.events)
    if at_seq is not None and at_seq > last:
        raise params.AT_SEQ.refuse(f"must be a whole number from 1 to {last}.")
    at_seq = at_seq or last
    body = await _state_after(history.events[:at_seq])
    return json_answer(body | {"atSeq": at_seq})


async def verify_execution(request: Request) -> Response:
    """Check the chain of commits and the snapshot, and that the listed events fold into the execution."""
    gateway = ready_gateway(request)
    history = await _history(request)
    assert history.run is not None
    checked = await verify.verify(gateway.store, history.run.run_id)
    if checked is None:
        raise ExecutionNotFound(history.run.run_id)
    problems = list(checked.problems)
    history = await _history(request)  # read again, so that its parts belong together
    assert history.run is not None
    events, head, shown = list(history.events), history.head, wire.execution(history.run)
    folded = msgspec.json.encode(await _state_after(events), order="sorted")
    if folded != msgspec.json.encode(shown, order="sorted"):
        problems.append("the listed events do not fold into the execution as it is shown")
    answer = {"ok": not problems, "events": len(events), "head": head, "problems": problems}
    return json_answer(answer)


async def _state_after(events: list[bytes]) -> JsonObject:
    """In a thread if there is much to fold."""

    def fold() -> JsonObject:
        return state_at(map(_decode, events))

    return fold() if sum(map(len, events)) <= ASIDE_BYTES else await asyncio.to_thread(fold)


async def explain(request: Request) -> Response:
    gateway, run = ready_gateway(request), await _latest(request)
    reasons = await why.why(gateway.store, gateway.read_model, run)
    refused = await why.refusals_of(gateway.store, run.run_id)
    language = choose_language(request.headers.get("accept-language"))
    return json_answer(explained(reasons, refused, language))


async def list_executions(request: Request) -> Response:
    gateway = ready_gateway(request)
    status, graph_id = params.STATUS.read(request), params.ONLY_GRAPH.read(request) or None
    limit = params.LIMIT.read(request)
    wanted = Filter(
        status=params.STATUSES[status] if status else None,
        active=1 if status == "ACTIVE" else None,
        flow=wire.flow_name_of(graph_id) if graph_id else None,
        tenant=caller_of(request).tenant_id,
        archived=0,
    )
    runs, cursor = await query.page_of_runs(
        gateway.store, gateway.read_model, wanted, limit, params.CURSOR.read(request) or None
    )
    shown = [wire.summary(run) for run in runs]
    # A flow may have the name that the runs of a graph have.
    listed: JsonObject = {
        "executions": [one for one in shown if graph_id is None or one["graphId"] == graph_id]
    }
    return json_answer(listed if cursor is None else listed | {"nextCursor": cursor})


async def _history(request: Request) -> EventHistory:
    gateway, execution_id = ready_gateway(request), requests.execution_id_of(request)
    with execution_must_exist(execution_id):
        return await requests.histories_of(gateway).read(
            execution_id,
            tenant_id=caller_of(request).tenant_id,
            known_seq=gateway.commands.runs.log_seq(execution_id),
        )


_LIST = record(["executions"], {"executions": array(ref("ExecutionSummary")), "nextCursor": TEXT})
_EVENTS = record(
    ["executionId", "events", "hasMore"],
    {"executionId": TEXT, "events": array(ref("ExecutionEvent")), "hasMore": BOOLEAN},
)
_STATE = {"allOf": [ref("Execution"), record(["atSeq"], {"atSeq": count(maximum=params.SEQ_MAX)})]}
OPERATIONS = [
    Operation(
        "GET",
        "/executions",
        list_executions,
        "Executions, those that changed last first; archived ones are left out",
        {200: json_of("A page", _LIST)},
        [params.STATUS, params.ONLY_GRAPH, params.LIMIT, params.CURSOR],
        errors=[422],
    ),
    Operation(
        "GET",
        "/executions/{executionId}",
        get_execution,
        "One execution with its nodes, as its log has it",
        {200: json_of("The execution", ref("Execution"))},
        [params.EXECUTION_ID],
        errors=[404],
    ),
    Operation(
        "GET",
        "/executions/{executionId}/events",
        list_events,
        "What happened to it, numbered from 1",
        {200: json_of("Events", _EVENTS)},
        [params.EXECUTION_ID, params.AFTER_SEQ, params.EVENTS_LIMIT],
        errors=[404, 422],
        name="list_execution_events",
    ),
    Operation(
        "GET",
        "/executions/{executionId}/state",
        get_state,
        "As it was after its first events",
        {200: json_of("The execution as it was", _STATE)},
        [params.EXECUTION_ID, params.AT_SEQ],
        errors=[404, 422],
        name="get_execution_state",
    ),
    Operation(
        "GET",
        "/executions/{executionId}/why",
        explain,
        "In words: what it waits for, or what decided its end, and what was refused",
        {200: json_of("Why", ref("ExecutionWhy"))},
        [params.EXECUTION_ID],
        errors=[404],
        name="explain_execution",
    ),
    Operation(
        "GET",
        "/executions/{executionId}/verify",
        verify_execution,
        "Whether its history is whole: the chain, the numbers, and what they fold into",
        {200: json_of("What was found", ref("ExecutionVerified"))},
        [params.EXECUTION_ID],
        errors=[404],
    ),
]
