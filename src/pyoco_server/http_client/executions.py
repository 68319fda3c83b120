"""Calls about executions and graphs: create, drive from outside, read, follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyoco_server.http_client.calls import execution_key, given, path_of
from pyoco_server.http_client.runs import wait_run
from pyoco_server.http_client.script import ApiRequest, Emit, ResumingStream, Script, Stream, ask

if TYPE_CHECKING:
    from pyoco_server.http_client.answers import (
        CommandAnswer,
        ExecutionAnswer,
        ExecutionEvent,
        ExecutionPageAnswer,
        GraphAnswer,
        GraphPageAnswer,
        VerifiedAnswer,
        WhyAnswer,
    )

EVENTS_PAGE = 500


def put_graph(graph_id: str, nodes: Sequence[Mapping[str, object]]) -> Script[GraphAnswer]:
    """Register a graph, or a new version of it. The same definition again makes no version."""
    return ask(ApiRequest("PUT", path_of("graphs", graph_id), json={"nodes": [dict(node) for node in nodes]}))


def list_graphs(*, limit: int | None = None, cursor: str | None = None) -> Script[GraphPageAnswer]:
    """`{"graphs", "nextCursor"?}`: the registered graphs."""
    return ask(ApiRequest("GET", "/graphs", given(limit=limit, cursor=cursor)))


def get_graph_definition(graph_id: str, *, version: int | None = None) -> Script[GraphAnswer]:
    """A registered graph, the latest version unless given."""
    return ask(ApiRequest("GET", path_of("graphs", graph_id), given(version=version)))


def create_execution(
    graph_id: str,
    inputs: Mapping[str, object] | None = None,
    *,
    version: int | None = None,
    tag: str | None = None,
    idempotency_key: str | None = None,
) -> Script[CommandAnswer]:
    """An execution of a registered graph, or of a flow of the workers (`flow:<name>`)."""
    body = {"graphId": graph_id, "input": dict(inputs or {})} | given(graphVersion=version, tag=tag)
    return ask(ApiRequest("POST", "/executions", json=body, headers=execution_key(idempotency_key)))


def list_executions(
    *,
    status: str | None = None,
    graph_id: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Script[ExecutionPageAnswer]:
    """`{"executions", "nextCursor"?}`, the newest first."""
    query = given(status=status, graphId=graph_id, limit=limit, cursor=cursor)
    return ask(ApiRequest("GET", "/executions", query))


def get_execution(execution_id: str) -> Script[ExecutionAnswer]:
    """The execution and its nodes."""
    return ask(ApiRequest("GET", path_of("executions", execution_id)))


def get_state(execution_id: str, at_seq: int) -> Script[ExecutionAnswer]:
    """The execution as it was after this many events."""
    return ask(ApiRequest("GET", path_of("executions", execution_id, "state"), {"atSeq": at_seq}))


def why(execution_id: str) -> Script[WhyAnswer]:
    """In words: what the run waits for, or what decided its end, and which commands were refused."""
    return ask(ApiRequest("GET", path_of("executions", execution_id, "why")))


def verify_execution(execution_id: str) -> Script[VerifiedAnswer]:
    """`{"ok", "events", "head", "problems"}`: checks the chain of events and the stored state."""
    return ask(ApiRequest("GET", path_of("executions", execution_id, "verify")))


def start_execution(execution_id: str, *, idempotency_key: str | None = None) -> Script[CommandAnswer]:
    """Start it: the first nodes become READY. A second start changes nothing."""
    return _command(("executions", execution_id, "start"), {}, idempotency_key)


def cancel_execution(
    execution_id: str, reason: str | None = None, *, idempotency_key: str | None = None
) -> Script[CommandAnswer]:
    """Cancel it. An accepted cancel is never undone; on an ended execution it changes nothing."""
    return _command(("executions", execution_id, "cancel"), given(reason=reason), idempotency_key)


def archive_execution(execution_id: str, *, idempotency_key: str | None = None) -> Script[CommandAnswer]:
    """Hide an ended execution from lists."""
    return _command(("executions", execution_id, "archive"), {}, idempotency_key)


def start_node(
    execution_id: str, node_id: str, *, worker_id: str, attempt: int = 1, idempotency_key: str | None = None
) -> Script[CommandAnswer]:
    """Take a READY node of a client-driven execution."""
    body = {"attempt": attempt, "workerId": worker_id}
    return _command(("executions", execution_id, "nodes", node_id, "start"), body, idempotency_key)


def report_progress(
    execution_id: str,
    node_id: str,
    progress: float,
    message: str | None = None,
    *,
    idempotency_key: str | None = None,
) -> Script[CommandAnswer]:
    """Report the progress of a running node, from 0 to 100."""
    body = {"progress": progress} | given(message=message)
    return _command(("executions", execution_id, "nodes", node_id, "progress"), body, idempotency_key)


def put_waiting(
    execution_id: str,
    node_id: str,
    wait_key: str,
    prompt: Mapping[str, object] | None = None,
    *,
    idempotency_key: str | None = None,
) -> Script[CommandAnswer]:
    """Let a running node wait for an answer with this key."""
    body = {"waitKey": wait_key} | given(prompt=None if prompt is None else dict(prompt))
    return _command(("executions", execution_id, "nodes", node_id, "wait"), body, idempotency_key)


def succeed_node(
    execution_id: str, node_id: str, output: object = None, *, idempotency_key: str | None = None
) -> Script[CommandAnswer]:
    """End a node successfully."""
    path = ("executions", execution_id, "nodes", node_id, "success")
    return _command(path, {"output": output}, idempotency_key)


def fail_node(
    execution_id: str, node_id: str, code: str, message: str = "", *, idempotency_key: str | None = None
) -> Script[CommandAnswer]:
    """End an attempt of a node with an error."""
    body = {"error": {"code": code, "message": message}}
    return _command(("executions", execution_id, "nodes", node_id, "fail"), body, idempotency_key)


def wait_execution(execution_id: str, timeout_sec: float | None = None) -> Script[ExecutionAnswer]:
    """The execution when it has ended; TimeoutError after `timeout_sec` (None: no limit)."""
    # An execution is a run, and the gateway answers this request when the run ends.
    yield from wait_run(execution_id, timeout_sec)
    return (yield from get_execution(execution_id))


def events(execution_id: str, *, follow: bool = False, after_seq: int = 0) -> Stream[ExecutionEvent]:
    """The events of the execution; with `follow` every event until the last one.

    A stream that breaks is opened again after the last event that was read.
    """
    if not follow:
        yield from _stored_events(execution_id, after_seq)
        return
    path = path_of("executions", execution_id, "stream")
    stream = ResumingStream(lambda: ApiRequest("GET", path), str(after_seq) if after_seq else None)
    while not stream.is_finished:
        # After the last event the gateway closes; the next connection is answered with 204.
        event = yield from stream.next()
        if event is not None and event.name == "message":
            yield Emit(event.data)


def _stored_events(execution_id: str, after_seq: int) -> Stream[ExecutionEvent]:
    path = path_of("executions", execution_id, "events")
    while True:
        page = yield from ask(ApiRequest("GET", path, {"afterSeq": after_seq, "limit": EVENTS_PAGE}))
        for event in page["events"]:
            after_seq = event["seq"]
            yield Emit(event)
        if not page["hasMore"]:
            return


def _command(path: tuple[str, ...], body: Mapping[str, object], key: str | None) -> Script[CommandAnswer]:
    return ask(ApiRequest("POST", path_of(*path), json=body, headers=execution_key(key)))
