"""What `POST /executions` submits: a run of a registered graph, or of a flow on workers."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from pyoco_server.http_api.context import Store
from pyoco_server.http_api.faces.executions import wire
from pyoco_server.http_api.faces.executions.graphs.document import GRAPH_ID
from pyoco_server.http_api.faces.executions.requests import CreateExecution
from pyoco_server.http_api.middleware.tracing_headers import traceparent_of
from pyoco_server.http_api.routing.problems import invalid
from pyoco_server.lifecycle.events import RunSubmitted
from pyoco_server.lifecycle.status import Driver
from pyoco_server.operations.executions import graphs
from pyoco_server.operations.identity.callers import Caller
from pyoco_server.operations.runs.submit import Submission, validate


async def submission_of(
    store: Store, caller: Caller, wanted: CreateExecution, correlation_id: str, headers: Mapping[str, str]
) -> RunSubmitted:
    """Valid, without an id. Raises for a graph that does not exist."""
    is_flow = wanted.graphId.startswith(wire.FLOW)
    if not is_flow and wanted.tag is not None:
        raise invalid("body", "tag", "tag says which workers run a flow:…; it means nothing here.")
    if is_flow and wanted.graphVersion is not None:
        raise invalid("body", "graphVersion", "graphVersion is of registered graphs; a flow:… has none.")
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
