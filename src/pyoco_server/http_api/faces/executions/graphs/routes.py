"""`/graphs`: register a definition, get it, list all."""

from __future__ import annotations

import asyncio

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.errors import TooLarge
from pyoco_server.http_api.context import ready_gateway
from pyoco_server.http_api.faces.executions import params, requests
from pyoco_server.http_api.faces.executions.graphs.document import GRAPH_ID, graph_tasks
from pyoco_server.http_api.faces.executions.wire import instant
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.responses.json import json_answer
from pyoco_server.http_api.routing.operation import Content, Operation, json_of
from pyoco_server.http_api.routing.schemas import TEXT, ref
from pyoco_server.json_value import JsonObject
from pyoco_server.lifecycle.graph import GraphTask
from pyoco_server.operations.executions import graphs
from pyoco_server.store.graphs import Head, StoredGraph

# Of the document with its white space. The stored graph has a limit of its own.
DOCUMENT_BYTES_MAX = 1_048_576


async def put_graph(request: Request) -> Response:
    gateway, graph_id = ready_gateway(request), params.GRAPH_ID.read(request)
    is_yaml = requests.content_type_of(request, requests.JSON | requests.YAML) in requests.YAML
    if not GRAPH_ID.fullmatch(graph_id):
        raise params.GRAPH_ID.refuse("must have 1 to 64 letters, digits, '_', '.' or '-'.")
    raw = await request.body()
    if len(raw) > DOCUMENT_BYTES_MAX:
        raise TooLarge(
            f"The graph is written in {len(raw)} bytes; at most {DOCUMENT_BYTES_MAX} are accepted."
        )
    # In a thread: other requests are answered while a large document is parsed.
    tasks = await asyncio.to_thread(graph_tasks, raw, graph_id=graph_id, is_yaml=is_yaml)
    stored, is_new = await graphs.register(gateway.store, caller_of(request), graph_id, tasks)
    place = {"Location": f"/graphs/{graph_id}?version={stored.graph.version}"}
    return json_answer(_shown(stored), 201 if is_new else 200, place)


async def get_graph(request: Request) -> Response:
    gateway, graph_id = ready_gateway(request), params.GRAPH_ID.read(request)
    version = params.VERSION.read(request)
    if not GRAPH_ID.fullmatch(graph_id):
        raise graphs.GraphNotFound("There is no such graph. List them with GET /graphs.")
    stored = await graphs.find(gateway.store, caller_of(request), graph_id, version)
    return json_answer(_shown(stored))


async def list_graphs(request: Request) -> Response:
    gateway = ready_gateway(request)
    limit, cursor = params.LIMIT.read(request), params.CURSOR.read(request) or None
    heads, more = await graphs.page(gateway.store, caller_of(request), limit=limit, cursor=cursor)
    listed = {"graphs": [_head(one) for one in heads]}
    return json_answer(listed if more is None else listed | {"nextCursor": more})


def _shown(stored: StoredGraph) -> JsonObject:
    graph = stored.graph
    return {
        "graphId": graph.id,
        "version": graph.version,
        "createdAt": instant(stored.created_at),
        "digest": stored.digest,
        "nodes": [_node(one) for one in graph.nodes],
    }


def _node(task: GraphTask) -> JsonObject:
    """Members with their default are left out, except these four."""
    written: JsonObject = msgspec.to_builtins(task)
    return {"id": task.id, "type": task.type, "after": task.after, "join": task.join} | written


def _head(head: Head) -> JsonObject:
    return {
        "graphId": head.graph_id,
        "version": head.version,
        "createdAt": instant(head.created_at),
        "digest": head.digest,
        "nodeCount": head.tasks,
    }


OPERATIONS = [
    Operation(
        "GET",
        "/graphs",
        list_graphs,
        "Registered graphs, in the order of their last change",
        {200: json_of("Graphs", ref("GraphList"))},
        [params.LIMIT, params.CURSOR],
        errors=[422],
    ),
    Operation(
        "GET",
        "/graphs/{graphId}",
        get_graph,
        "One graph, in its latest version or another one",
        {200: json_of("The graph", ref("Graph"))},
        [params.GRAPH_ID, params.VERSION],
        errors=[404, 422],
    ),
    Operation(
        "PUT",
        "/graphs/{graphId}",
        put_graph,
        "Register a graph; the same again is no new version",
        {200: json_of("Registered before", ref("Graph")), 201: json_of("A new version", ref("Graph"))},
        [params.GRAPH_ID],
        Content(kinds={"application/json": ref("GraphDefinition"), "application/yaml": TEXT}),
        errors=[413, 415, 422],
    ),
]
