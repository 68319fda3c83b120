"""Drive executions over HTTP as a program would: a fresh key for every command, and what each must answer."""

from __future__ import annotations

import uuid
from typing import Any

import httpx

from tests.http_api.serving import ULID

ACCEPTED = {"executionId", "command", "accepted", "correlationId", "idempotencyKey"}


class Driver:
    """Commands of one client, on one gateway."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client

    async def graph(self, *nodes: Any, graph_id: str = "g") -> None:
        """Nodes as `"a"`, or as they are written."""
        written = [{"id": node} if isinstance(node, str) else node for node in nodes]
        answer = await self.client.put(f"/graphs/{graph_id}", json={"nodes": written})
        assert answer.status_code in (200, 201), answer.text

    async def create(self, graph_id: str = "g", **members: Any) -> str:
        answer = await self.post("/executions", {"graphId": graph_id} | members)
        return str(expect_accepted(answer, "CreateExecution")["executionId"])

    async def started(self, *nodes: Any, graph_id: str = "g") -> str:
        """An execution of these nodes, started."""
        await self.graph(*nodes, graph_id=graph_id)
        execution_id = await self.create(graph_id)
        await self.ok(execution_id, "start")
        return execution_id

    async def post(
        self, path: str, body: Any = None, key: str | None = None, **headers: str
    ) -> httpx.Response:
        sent = {"X-Idempotency-Key": key or str(uuid.uuid4())} | headers
        return await self.client.post(path, json=body if body is not None else {}, headers=sent)

    async def on(
        self, execution_id: str, what: str, body: Any = None, key: str | None = None
    ) -> httpx.Response:
        """`what`: `cancel`, or `a/start` for the node `a`."""
        node, _, verb = what.rpartition("/")
        below = f"/nodes/{node}" if node else ""
        return await self.post(f"/executions/{execution_id}{below}/{verb}", body, key)

    async def ok(self, execution_id: str, what: str, **body: Any) -> dict[str, Any]:
        answer = await self.on(execution_id, what, body)
        assert answer.status_code == 202, answer.text
        accepted: dict[str, Any] = answer.json()
        return accepted

    async def take(self, execution_id: str, node: str, attempt: int = 1, worker: str = "w") -> None:
        await self.ok(execution_id, f"{node}/start", attempt=attempt, workerId=worker)

    async def do(self, execution_id: str, *nodes: str) -> None:
        """Start and succeed each, one after the other."""
        for node in nodes:
            await self.take(execution_id, node)
            await self.ok(execution_id, f"{node}/success", output={"of": node})

    async def get(self, execution_id: str, below: str = "") -> Any:
        answer = await self.client.get(f"/executions/{execution_id}{below}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def statuses(self, execution_id: str) -> tuple[str, dict[str, str]]:
        shown = await self.get(execution_id)
        return shown["status"], {node["nodeId"]: node["status"] for node in shown["nodes"]}

    async def events(self, execution_id: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while True:
            page = await self.get(execution_id, f"/events?afterSeq={len(found)}&limit=2000")
            found += page["events"]
            if not page["hasMore"]:
                return found

    async def types(self, execution_id: str) -> list[str]:
        """`NODE_READY a`, in their order."""
        events = await self.events(execution_id)
        return [" ".join([one["type"], one["payload"].get("nodeId", "")]).strip() for one in events]


def expect_accepted(answer: httpx.Response, command: str, status: int = 202) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    body: dict[str, Any] = answer.json()
    assert set(body) == ACCEPTED
    assert (body["command"], body["accepted"]) == (command, True)
    assert ("idempotency-replayed" in answer.headers) == (status == 200)
    return body


def expect_refusal(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert ULID.fullmatch(answer.headers["x-request-id"])
    body = answer.json()
    assert set(body) == {"error"}
    error: dict[str, Any] = body["error"]
    assert set(error) == {"code", "message", "details"}
    assert error["code"] == code, error
    assert isinstance(error["details"], dict)
    assert error["message"]
    return error


def expect_rejected(answer: httpx.Response, reason: str, **details: Any) -> dict[str, Any]:
    """A guard's no, with all that its details must say."""
    error = expect_refusal(answer, 409, "COMMAND_REJECTED")
    found = error["details"]
    assert set(found) <= {"reason", "status", "nodeStatus", "cancelRequestedAt"}
    assert found["reason"] == reason, error
    assert {name: found.get(name) for name in details} == details
    return error
