"""Commands of the client that drives an execution: the effect of each command, one test per sequence."""

from __future__ import annotations

import uuid
from typing import Any

import httpx
import pytest

from tests.conftest import until
from tests.http_api.faces.executions.driving import Driver, expect_accepted, expect_refusal, expect_rejected


@pytest.fixture
def drive(client: httpx.AsyncClient) -> Driver:
    return Driver(client)


async def test_a_chain_from_creation_to_its_end(drive: Driver) -> None:
    await drive.graph("a", {"id": "b", "after": ["a"]})
    created = await drive.post("/executions", {"graphId": "g", "input": {"n": 1}}, key="k1")
    accepted = expect_accepted(created, "CreateExecution")
    execution_id = accepted["executionId"]
    assert created.headers["location"] == f"/executions/{execution_id}"
    assert accepted["idempotencyKey"] == "k1"
    assert uuid.UUID(accepted["correlationId"])
    assert await drive.statuses(execution_id) == ("ACTIVE", {"a": "IDLE", "b": "IDLE"})
    await drive.ok(execution_id, "start")
    assert await drive.statuses(execution_id) == ("ACTIVE", {"a": "READY", "b": "IDLE"})
    await drive.take(execution_id, "a")
    await drive.ok(execution_id, "a/progress", progress=42, message="processing...")
    node = (await drive.get(execution_id))["nodes"][0]
    assert (node["status"], node["attempt"], node["workerId"]) == ("RUNNING", 1, "w")
    assert (node["progress"], node["message"]) == (42, "processing...")
    assert '"progress":42,' in (await drive.client.get(f"/executions/{execution_id}")).text
    await drive.ok(execution_id, "a/success", output={"rows": 3})
    await drive.do(execution_id, "b")
    shown = await drive.get(execution_id)
    assert (shown["status"], shown["driver"], shown["graphId"]) == ("COMPLETED", "client", "g")
    assert (shown["graphVersion"], shown["input"]) == (1, {"n": 1})
    assert [node["output"] for node in shown["nodes"]] == [{"rows": 3}, {"of": "b"}]
    assert await drive.types(execution_id) == [
        "EXECUTION_CREATED",
        "NODE_CREATED a",
        "NODE_CREATED b",
        "EXECUTION_STARTED",
        "NODE_READY a",
        "NODE_STARTED a",
        "NODE_PROGRESS_REPORTED a",
        "NODE_SUCCEEDED a",
        "NODE_READY b",
        "NODE_STARTED b",
        "NODE_SUCCEEDED b",
        "EXECUTION_COMPLETED",
    ]


async def test_each_event_says_who_why_and_in_what_connection(drive: Driver) -> None:
    await drive.graph("a")
    created = await drive.post("/executions", {"graphId": "g"}, **{"X-Correlation-Id": "trade-7"})
    execution_id = created.json()["executionId"]
    assert created.json()["correlationId"] == "trade-7"
    await drive.ok(execution_id, "start")
    await drive.take(execution_id, "a")
    events = await drive.events(execution_id)
    assert [event["seq"] for event in events] == [1, 2, 3, 4, 5]
    assert {event["executionId"] for event in events} == {execution_id}
    assert len({event["eventId"] for event in events}) == 5
    assert [event["correlationId"] for event in events[:2]] == ["trade-7", "trade-7"]
    assert [event["actor"]["kind"] for event in events] == ["user", "user", "user", "user", "external"]
    causes = [event["causationId"] for event in events]
    assert causes[0] == causes[1] != causes[2] == causes[3] != causes[4]
    assert {event["schemaVersion"] for event in events} == {1}
    assert events[0]["payload"] == {"graphId": "g", "graphVersion": 1, "driver": "client", "input": {}}
    assert events[4]["payload"] == {"nodeId": "a", "attempt": 1, "workerId": "w"}


async def test_a_cancel_ends_everything_in_one_commit_and_nothing_undoes_it(drive: Driver) -> None:
    execution_id = await drive.started("a", "b", {"id": "c", "after": ["a"]}, {"id": "w", "type": "wait"})
    await drive.do(execution_id, "b")
    await drive.take(execution_id, "a")
    before = len(await drive.events(execution_id))
    await drive.ok(execution_id, "cancel", reason="enough")
    assert (await drive.types(execution_id))[before:] == [
        "EXECUTION_CANCEL_REQUESTED",
        "NODE_INTERRUPT_REQUESTED a",
        "NODE_CANCELED a",
        "NODE_CANCELED c",
        "NODE_CANCELED w",
        "EXECUTION_CANCELED",
    ]
    shown = await drive.get(execution_id)
    assert shown["status"] == "CANCELED"
    assert shown["cancelRequestedAt"] == shown["endedAt"]
    assert [(node["status"], node["canceledByExecution"]) for node in shown["nodes"]] == [
        ("CANCELED", True),
        ("SUCCEEDED", False),
        ("CANCELED", True),
        ("CANCELED", True),
    ]
    late = [("start", {}), ("a/success", {"output": 1}), ("a/fail", {"error": {"code": "E"}})]
    late += [("a/progress", {"progress": 1}), ("w/resume", {"resumeKey": "w"}), ("a/wait", {"waitKey": "k"})]
    for what, body in late:
        error = expect_rejected(
            await drive.on(execution_id, what, body), "EXECUTION_TERMINAL", status="CANCELED"
        )
        assert error["details"]["cancelRequestedAt"] == shown["cancelRequestedAt"]
    await drive.ok(execution_id, "cancel")
    assert await drive.get(execution_id) == shown
    assert len(await drive.events(execution_id)) == before + 6


async def test_a_guard_says_which_one_it_is_and_how_things_stand(drive: Driver) -> None:
    execution_id = await drive.started("a", {"id": "b", "after": ["a"]})
    body = {"attempt": 1, "workerId": "w"}
    error = expect_rejected(await drive.on(execution_id, "b/start", body), "NODE_STATUS", nodeStatus="IDLE")
    assert error["message"] == "StartNode rejected because node is IDLE"
    assert error["details"] == {"reason": "NODE_STATUS", "status": "ACTIVE", "nodeStatus": "IDLE"}
    second = await drive.on(execution_id, "a/start", body | {"attempt": 2})
    expect_rejected(second, "ATTEMPT", status="ACTIVE", nodeStatus="READY")
    for what, sent in (
        ("a/progress", {"progress": 1}),
        ("a/wait", {"waitKey": "k"}),
        ("a/success", {}),
        ("a/fail", {"error": {"code": "E"}}),
        ("a/resume", {"resumeKey": "k"}),
    ):
        expect_rejected(await drive.on(execution_id, what, sent), "NODE_STATUS", nodeStatus="READY")
    expect_rejected(await drive.on(execution_id, "archive"), "NOT_TERMINAL", status="ACTIVE")
    await drive.take(execution_id, "a")
    again = await drive.on(execution_id, "a/start", body)
    assert again.status_code == 202
    other = await drive.on(execution_id, "a/start", body | {"workerId": "other"})
    expect_rejected(other, "NODE_STATUS", nodeStatus="RUNNING")
    assert (await drive.types(execution_id)).count("NODE_STARTED a") == 1


async def test_starting_twice_is_accepted_and_changes_nothing(drive: Driver) -> None:
    execution_id = await drive.started("a")
    before = await drive.events(execution_id)
    await drive.ok(execution_id, "start")
    assert await drive.events(execution_id) == before


async def test_a_node_waits_and_goes_on_with_what_the_resume_brings(drive: Driver) -> None:
    execution_id = await drive.started("a")
    await drive.take(execution_id, "a")
    await drive.ok(execution_id, "a/wait", waitKey="approval-123", prompt={"ask": "ok?"})
    node = (await drive.get(execution_id))["nodes"][0]
    assert (node["status"], node["waitKey"], node["prompt"]) == ("WAITING", "approval-123", {"ask": "ok?"})
    wrong = await drive.on(execution_id, "a/resume", {"resumeKey": "approval-124"})
    expect_rejected(wrong, "RESUME_KEY", nodeStatus="WAITING")
    await drive.ok(execution_id, "a/resume", resumeKey="approval-123", payload={"yes": True}, comment="fine")
    node = (await drive.get(execution_id))["nodes"][0]
    assert (node["status"], node["waitKey"], node["input"]) == ("RUNNING", None, {"yes": True})
    again = await drive.on(execution_id, "a/resume", {"resumeKey": "approval-123"})
    expect_rejected(again, "NODE_STATUS", nodeStatus="RUNNING")
    await drive.ok(execution_id, "a/wait", waitKey="second")
    await drive.ok(execution_id, "a/success", output="done while waiting")
    assert await drive.statuses(execution_id) == ("COMPLETED", {"a": "SUCCEEDED"})


async def test_a_wait_node_waits_by_itself_and_its_answer_is_its_output(drive: Driver) -> None:
    nodes: list[Any] = ["build", {"id": "release", "type": "wait", "after": ["build"], "prompt": {"v": 2}}]
    execution_id = await drive.started(*nodes, {"id": "deploy", "after": ["release"]})
    await drive.do(execution_id, "build")
    waiting = (await drive.get(execution_id))["nodes"][1]
    assert (waiting["status"], waiting["waitKey"], waiting["prompt"]) == ("WAITING", "release", {"v": 2})
    why = await drive.get(execution_id, "/why")
    assert "release" in why["summary"]
    await drive.ok(execution_id, "release/resume", resumeKey="release", payload={"by": "ann"})
    release = (await drive.get(execution_id))["nodes"][1]
    assert (release["status"], release["output"]) == ("SUCCEEDED", {"by": "ann"})
    await drive.do(execution_id, "deploy")
    assert (await drive.types(execution_id))[7:14] == [
        "NODE_SUCCEEDED build",
        "NODE_READY release",
        "NODE_WAITING release",
        "NODE_RESUMED release",
        "NODE_SUCCEEDED release",
        "NODE_READY deploy",
        "NODE_STARTED deploy",
    ]


async def test_a_rejected_wait_fails_its_node(drive: Driver) -> None:
    execution_id = await drive.started(
        {"id": "ok", "type": "wait", "wait_key": "k"}, {"id": "b", "after": ["ok"]}
    )
    await drive.ok(execution_id, "ok/resume", resumeKey="k", decision="reject", comment="not today")
    shown = await drive.get(execution_id)
    assert (shown["status"], shown["error"]["nodeId"]) == ("FAILED", "ok")
    assert shown["nodes"][0]["error"] == {"code": "REJECTED", "message": "not today"}
    assert (shown["nodes"][1]["status"], shown["nodes"][1]["canceledByExecution"]) == ("CANCELED", False)


async def test_a_failed_attempt_is_tried_again_after_its_backoff(drive: Driver) -> None:
    retry = {"max_attempts": 3, "backoff_sec": 0.05, "factor": 1}
    execution_id = await drive.started({"id": "a", "retry": retry})

    async def is_ready() -> bool:
        return (await drive.statuses(execution_id))[1]["a"] == "READY"

    for attempt in (1, 2, 3):
        await until(is_ready)
        await drive.take(execution_id, "a", attempt)
        await drive.ok(execution_id, "a/fail", error={"code": "ERR_X", "message": f"no {attempt}"})
    shown = await drive.get(execution_id)
    assert shown["status"] == "FAILED"
    assert shown["nodes"][0]["error"] == {"code": "ERR_X", "message": "no 3"}
    failures = [one["payload"] for one in await drive.events(execution_id) if one["type"] == "NODE_FAILED"]
    assert [one["willRetry"] for one in failures] == [True, True, False]
    assert ["retryAt" in one for one in failures] == [True, True, False]


async def test_time_that_runs_out_fails_a_node_and_decides_a_wait(drive: Driver) -> None:
    execution_id = await drive.started(
        {"id": "slow", "timeout_sec": 0.05},
        {"id": "late", "type": "wait", "wait_timeout_sec": 0.05, "on_timeout": "succeed"},
        {"id": "end", "after": ["slow", "late"], "join": "all_done"},
    )
    await drive.take(execution_id, "slow")

    async def is_ready() -> bool:
        return (await drive.statuses(execution_id))[1]["end"] == "READY"

    await until(is_ready)
    slow, late, _ = (await drive.get(execution_id))["nodes"]
    assert (slow["status"], slow["error"]["code"]) == ("FAILED", "ERR_TIMEOUT")
    assert (late["status"], late["output"]) == ("SUCCEEDED", None)
    actors = {
        one["actor"]["kind"] for one in await drive.events(execution_id) if one["type"] == "NODE_FAILED"
    }
    assert actors == {"system"}
    await drive.do(execution_id, "end")
    assert (await drive.statuses(execution_id))[0] == "COMPLETED"


@pytest.mark.parametrize(
    ("verb", "body", "ends"),
    [("success", {"output": 1}, "SUCCEEDED"), ("fail", {"error": {"code": "E"}}, "FAILED")],
)
async def test_a_node_that_waits_can_be_ended(
    drive: Driver, verb: str, body: dict[str, Any], ends: str
) -> None:
    execution_id = await drive.started("a")
    await drive.take(execution_id, "a")
    await drive.ok(execution_id, "a/wait", waitKey="k")
    await drive.ok(execution_id, f"a/{verb}", **body)
    assert (await drive.statuses(execution_id))[1] == {"a": ends}


async def test_the_time_of_a_node_stands_still_while_it_waits(drive: Driver) -> None:
    execution_id = await drive.started({"id": "a", "timeout_sec": 2.0})
    await drive.take(execution_id, "a")
    await drive.ok(execution_id, "a/wait", waitKey="k")
    longer = {"id": "w", "type": "wait", "wait_timeout_sec": 2.5, "on_timeout": "succeed"}
    other = await drive.started(longer, graph_id="longer")

    async def is_over(which: str) -> bool:
        return (await drive.statuses(which))[0] != "ACTIVE"

    await until(lambda: is_over(other))
    assert await drive.statuses(execution_id) == ("ACTIVE", {"a": "WAITING"})
    await drive.ok(execution_id, "a/resume", resumeKey="k")
    await until(lambda: is_over(execution_id))
    [node] = (await drive.get(execution_id))["nodes"]
    assert (node["status"], node["error"]["code"]) == ("FAILED", "ERR_TIMEOUT")


async def test_an_execution_that_is_over_is_put_away(drive: Driver) -> None:
    execution_id = await drive.started("a")
    await drive.do(execution_id, "a")
    assert [one["executionId"] for one in (await drive.client.get("/executions")).json()["executions"]] == [
        execution_id
    ]
    await drive.ok(execution_id, "archive")
    await drive.ok(execution_id, "archive")
    assert (await drive.client.get("/executions")).json() == {"executions": []}
    shown = await drive.get(execution_id)
    assert (shown["status"], shown["archived"]) == ("COMPLETED", True)
    assert (await drive.types(execution_id))[-2:] == ["EXECUTION_COMPLETED", "EXECUTION_ARCHIVED"]
    assert (await drive.client.get(f"/runs/{execution_id}")).json()["status"] == "COMPLETED"
    # It is put away here only: a list of runs, or of jobs, is a list of all of them.
    assert [one["run_id"] for one in (await drive.client.get("/runs")).json()] == [execution_id]
    assert [one["id"] for one in (await drive.client.get("/jobs")).json()["jobs"]] == [execution_id]


async def test_what_is_not_there_is_404_before_anything_else_but_syntax(drive: Driver) -> None:
    execution_id = await drive.started("a")
    nobody = str(uuid.uuid4())
    for odd in (nobody, "x" * 200, "a.b", "%00"):
        expect_refusal(await drive.on(odd, "start"), 404, "EXECUTION_NOT_FOUND")
        expect_refusal(await drive.client.get(f"/executions/{odd}"), 404, "EXECUTION_NOT_FOUND")
        expect_refusal(await drive.on(odd, "start", {"x": 1}), 404, "EXECUTION_NOT_FOUND")
    expect_refusal(await drive.on(nobody, "a/success"), 404, "EXECUTION_NOT_FOUND")
    expect_refusal(await drive.on(execution_id, "b/success"), 404, "NODE_NOT_FOUND")
    expect_refusal(await drive.on(nobody, "a/start", {}), 422, "INVALID_REQUEST")
    expect_refusal(await drive.post("/executions", {"graphId": "nothing"}), 404, "GRAPH_NOT_FOUND")
    expect_refusal(await drive.post("/executions", {"graphId": "a/b"}), 404, "GRAPH_NOT_FOUND")
    key = "the key"
    assert (await drive.on(execution_id, "a/start", {"attempt": 1, "workerId": "w"}, key)).status_code == 202
    other = await drive.on(execution_id, "a/start", {"attempt": 3, "workerId": "w"}, key)
    expect_refusal(other, 409, "IDEMPOTENCY_CONFLICT")
    await drive.ok(execution_id, "cancel")
    expect_refusal(await drive.on(execution_id, "b/success"), 404, "NODE_NOT_FOUND")
    for below in ("/events", "/state", "/stream", "/why", "/verify", ""):
        answer = await drive.client.get(f"/executions/{nobody}{below}")
        expect_refusal(answer, 404, "EXECUTION_NOT_FOUND")
    expect_refusal(await drive.client.get("/executions/a/b/c"), 404, "NOT_FOUND")
    expect_refusal(await drive.client.delete(f"/executions/{execution_id}"), 405, "METHOD_NOT_ALLOWED")


async def test_what_cannot_be_read_is_refused_with_its_place(drive: Driver) -> None:
    execution_id = await drive.started("a")
    for what, body, place in (
        ("a/start", {}, ["body", "attempt"]),
        ("a/start", {"attempt": 0, "workerId": "w"}, ["body", "attempt"]),
        ("a/start", {"attempt": 1.5, "workerId": "w"}, ["body", "attempt"]),
        ("a/start", {"attempt": True, "workerId": "w"}, ["body", "attempt"]),
        ("a/start", {"attempt": 1, "workerId": ""}, ["body", "workerId"]),
        ("a/start", {"attempt": 1}, ["body", "workerId"]),
        ("a/progress", {"progress": 101}, ["body", "progress"]),
        ("a/progress", {"progress": -0.1}, ["body", "progress"]),
        ("a/progress", {"progress": "42"}, ["body", "progress"]),
        ("a/progress", {"progress": 1, "message": 7}, ["body", "message"]),
        ("a/wait", {}, ["body", "waitKey"]),
        ("a/wait", {"waitKey": "k", "prompt": "?"}, ["body", "prompt"]),
        ("a/resume", {}, ["body", "resumeKey"]),
        ("a/resume", {"resumeKey": "k", "decision": "maybe"}, ["body", "decision"]),
        ("a/fail", {}, ["body", "error"]),
        ("a/fail", {"error": {"message": "m"}}, ["body", "error", "code"]),
        ("a/fail", {"error": "boom"}, ["body", "error"]),
        ("cancel", {"reason": 1}, ["body", "reason"]),
        ("start", [1], ["body"]),
    ):
        error = expect_refusal(await drive.on(execution_id, what, body), 422, "INVALID_REQUEST")
        assert error["details"]["problems"][0]["loc"] == place, (what, body, error)
    for wanted, place in (
        ({}, ["body", "graphId"]),
        ({"graphId": ""}, ["body", "graphId"]),
        ({"graphId": "g", "input": [1]}, ["body", "input"]),
        ({"graphId": "g", "tag": "x"}, ["body", "tag"]),
        ({"graphId": "flow:f", "graphVersion": 1}, ["body", "graphVersion"]),
        ({"graphId": "flow:f", "tag": "no tag!"}, ["tag"]),
        ({"graphId": "flow:"}, ["flow_name"]),
    ):
        error = expect_refusal(await drive.post("/executions", wanted), 422, "INVALID_REQUEST")
        assert error["details"]["problems"][0]["loc"] == place, (wanted, error)
    assert await drive.statuses(execution_id) == ("ACTIVE", {"a": "READY"})


async def test_headers_and_bodies_that_will_not_do(drive: Driver) -> None:
    execution_id = await drive.started("a")
    path, client = f"/executions/{execution_id}/cancel", drive.client
    missing = expect_refusal(await client.post(path), 422, "INVALID_REQUEST")
    assert missing["details"]["problems"][0]["loc"] == ["header", "X-Idempotency-Key"]
    key = {"X-Idempotency-Key": "k"}
    for body in (b"{", b'{"reason": NaN}', b'{"a": 1, "a": 2}', b"\xff", b"[" * 100 + b"]" * 100):
        expect_refusal(await client.post(path, content=body, headers=key), 422, "INVALID_REQUEST")
    deep = b'{"output": ' + b"[" * 62 + b"]" * 62 + b"}"
    success = f"/executions/{execution_id}/nodes/a/success"
    expect_refusal(await client.post(success, content=deep, headers=key), 422, "INVALID_REQUEST")
    form = key | {"Content-Type": "application/x-www-form-urlencoded"}
    expect_refusal(await client.post(path, content=b"a=b", headers=form), 415, "UNSUPPORTED_MEDIA_TYPE")
    large = b'{"output": "' + b"x" * 200_000 + b'"}'
    expect_refusal(await client.post(success, content=large, headers=key), 413, "TOO_LARGE")
    odd = key | {"X-Correlation-Id": "c" * 300}
    expect_refusal(await client.post(path, headers=odd), 422, "INVALID_REQUEST")
    problem = await client.post(path, headers={"Accept": "application/problem+json"})
    assert (problem.status_code, problem.headers["content-type"]) == (422, "application/problem+json")
    assert problem.json()["code"] == "INVALID_REQUEST"
    assert (await drive.statuses(execution_id))[0] == "ACTIVE"
    assert (await client.post(path, headers=key)).status_code == 202
