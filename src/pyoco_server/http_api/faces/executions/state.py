"""Folds listed events into the body of `GET /executions/{id}` as it was after the first k of them. Pure.

It uses only events as they are sent, so a client with the list can do the same. A property test compares the
result with the body that is made from the run itself (`wire.execution`).
"""

from __future__ import annotations

from collections.abc import Iterable

from pyoco_server.http_api.faces.executions.event_mapping import EventType
from pyoco_server.json_value import JsonObject, JsonValue
from pyoco_server.lifecycle.run import MESSAGE_CHARS_MAX

_NODE = {
    "status": "IDLE",
    "canceledByExecution": False,
    "attempt": 0,
    "workerId": None,
    "progress": None,
    "message": None,
    "waitKey": None,
    "prompt": None,
    "input": None,
    "output": None,
    "error": None,
    "startedAt": None,
    "endedAt": None,
}
_NO_WAIT = {"waitKey": None, "prompt": None}


class ExecutionState:
    """Takes events in their order."""

    def __init__(self) -> None:
        self._whole: JsonObject = {}
        self._nodes: dict[str, JsonObject] = {}

    @property
    def body(self) -> JsonObject:
        return self._whole | {"nodes": [dict(node) for node in self._nodes.values()]}

    def take(self, event: JsonObject) -> None:
        kind, payload = EventType(str(event["type"])), _payload(event)
        node = payload.get("nodeId")
        if isinstance(node, str):
            self._take_node(kind, node, payload, event["occurredAt"])
        else:
            self._take_whole(kind, payload, event)

    def _take_whole(self, kind: EventType, payload: JsonObject, event: JsonObject) -> None:
        at = event["occurredAt"]
        match kind:
            case EventType.EXECUTION_CREATED:
                self._whole = _begun(event)
            case EventType.EXECUTION_STARTED:
                self._whole["startedAt"] = at
            case EventType.EXECUTION_CANCEL_REQUESTED:
                self._whole["cancelRequestedAt"] = at
            case EventType.EXECUTION_COMPLETED:
                self._whole |= {"status": "COMPLETED", "endedAt": at}
            case EventType.EXECUTION_CANCELED:
                self._whole |= {"status": "CANCELED", "endedAt": at}
            case EventType.EXECUTION_FAILED:
                self._whole |= {"status": "FAILED", "endedAt": at, "error": payload["error"]}
            case EventType.EXECUTION_ARCHIVED:
                self._whole["archived"] = True
            case _:
                pass  # reserved: never produced

    def _take_node(self, kind: EventType, name: str, payload: JsonObject, at: JsonValue) -> None:
        if kind is EventType.NODE_CREATED:
            self._nodes[name] = {"nodeId": name} | _NODE
            return
        node = self._nodes[name]
        match kind:
            case EventType.NODE_READY:
                node["status"] = "READY"
            case EventType.NODE_STARTED:
                node |= _NODE | {"status": "RUNNING", "startedAt": at}
                node |= {"attempt": payload["attempt"], "workerId": payload["workerId"]}
            case EventType.NODE_PROGRESS_REPORTED:
                message = payload["message"]
                node["progress"] = payload["progress"]
                node["message"] = message[:MESSAGE_CHARS_MAX] if isinstance(message, str) else None
            case EventType.NODE_WAITING:
                _put_waiting(node, payload, at)
            case EventType.NODE_RESUMED:
                node |= _NO_WAIT | {"status": "RUNNING", "input": payload["payload"]}
            case EventType.NODE_SUCCEEDED:
                node |= _ended("SUCCEEDED", payload, at) | {"output": payload["output"], "error": None}
            case EventType.NODE_FAILED:
                status = "IDLE" if payload["willRetry"] else "FAILED"
                node |= _ended(status, payload, at) | {"output": None, "error": payload["error"]}
            case EventType.NODE_CANCELED:
                canceled = {"canceledByExecution": payload["canceledByExecution"]}
                node |= _NO_WAIT | canceled | {"status": "CANCELED", "endedAt": at}
            case _:
                pass  # a request; its effect has an event of its own


def state_at(events: Iterable[JsonObject]) -> JsonObject:
    state = ExecutionState()
    for event in events:
        state.take(event)
    return state.body


def _payload(event: JsonObject) -> JsonObject:
    payload = event["payload"]
    assert isinstance(payload, dict)
    return payload


def _begun(event: JsonObject) -> JsonObject:
    payload = _payload(event)
    return {
        "executionId": event["executionId"],
        "status": "ACTIVE",
        "graphId": payload["graphId"],
        "graphVersion": payload["graphVersion"],
        "driver": payload["driver"],
        "createdAt": event["occurredAt"],
        "startedAt": None,
        "endedAt": None,
        "cancelRequestedAt": None,
        "archived": False,
        "error": None,
        "input": payload["input"],
    }


def _put_waiting(node: JsonObject, payload: JsonObject, at: JsonValue) -> None:
    if _attempt(payload) > _attempt(node):
        node["startedAt"] = at
    node |= {"status": "WAITING", "attempt": payload["attempt"]}
    node |= {"waitKey": payload["waitKey"], "prompt": payload["prompt"]}


def _attempt(members: JsonObject) -> int:
    attempt = members["attempt"]
    assert isinstance(attempt, int)
    return attempt


def _ended(status: str, payload: JsonObject, at: JsonValue) -> JsonObject:
    ended = {
        "status": status,
        "attempt": payload["attempt"],
        "startedAt": payload["startedAt"],
        "endedAt": at,
    }
    return _NO_WAIT | ended
