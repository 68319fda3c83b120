"""POST /runs/{id}/retry from a task on, and with other parameters: what is executed again, what refused."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import httpx
import pytest
from pyoco.core.models import Flow
from pyoco.dsl.syntax import switch

from pyoco_server.lifecycle.commands import CancelRun
from pyoco_server.operations.identity.callers import ANONYMOUS
from pyoco_server.operations.runs.apply import apply
from pyoco_server.operations.runs.retry import RetryRequest, retry
from pyoco_server.operations.runs.submit import submit as submit_run
from pyoco_server.store.store import Store
from tests.engine.building import flow_of, make_task
from tests.engine.test_loops import named
from tests.http_api.serving import submit
from tests.worker.stage import Flows, a_submission, lawful, the_run, until_handled, working
from tests.worker.wait_stage import release_flow, resume


class Diamond:
    """fetch, then left and right, then join; and one beside them. Counts what is executed."""

    def __init__(self) -> None:
        self.executed: Counter[str] = Counter()
        self.broken = False

    def build(self) -> Flow:
        fetch = make_task("fetch", self._fetch)
        left = make_task("left", self._left, [fetch])
        right = make_task("right", self._right, [fetch])
        return flow_of(fetch, left, right, make_task("join", self._join, [left, right]))

    def _fetch(self, n: int) -> int:
        self.executed["fetch"] += 1
        return n

    def _left(self, fetch: int, n: int) -> list[int]:
        self.executed["left"] += 1
        if self.broken:
            raise ValueError("not yet")
        return [fetch, n]

    def _right(self, fetch: int) -> int:
        self.executed["right"] += 1
        return -fetch

    def _join(self, left: list[int], right: int) -> list[int]:
        self.executed["join"] += 1
        return [*left, right]


async def forked(client: httpx.AsyncClient, run_id: str, task: str, **members: Any) -> str:
    answer = await client.post(f"/runs/{run_id}/retry", json={"from": "task", "task": task} | members)
    assert answer.status_code == 200, answer.text
    new: str = answer.json()["run_id"]
    body = {"run_id": new, "status": "PENDING", "retry_of": run_id, "retry_from": task}
    assert answer.content == json.dumps(body, separators=(",", ":")).encode()
    return new


async def shown(client: httpx.AsyncClient, run_id: str) -> dict[str, Any]:
    run: dict[str, Any] = (await client.get(f"/runs/{run_id}", params={"include": "records"})).json()
    return run


async def test_the_task_and_what_comes_after_it_is_executed_again(
    client: httpx.AsyncClient, store: Store
) -> None:
    diamond = Diamond()
    async with working(store.config, Flows(diamond=diamond.build)) as worker:
        old = await submit(client, "diamond", params={"n": 1})
        await worker.run_once(timeout=20.0)
        before = await shown(client, old)
        new = await forked(client, old, "left")
        pending = await shown(client, new)
        assert pending["tasks"] == {"fetch": "SUCCEEDED", "right": "SUCCEEDED"}
        assert await worker.run_once(timeout=20.0) == new
    assert diamond.executed == {"fetch": 1, "left": 2, "right": 1, "join": 2}
    after = await shown(client, new)
    assert (after["status"], after["retry_of"], after["retry_from"]) == ("COMPLETED", old, "left")
    assert after["task_records"]["fetch"] == before["task_records"]["fetch"]
    assert after["task_records"]["join"]["output"] == [1, 1, -1]
    still = await shown(client, old)
    assert [still[name] for name in ("status", "updated_at", "tasks", "task_records")] == [
        before[name] for name in ("status", "updated_at", "tasks", "task_records")
    ]
    assert "retry_from" not in still
    await lawful(store, new)


async def test_what_had_not_succeeded_is_executed_too_whatever_was_chosen(
    client: httpx.AsyncClient, store: Store
) -> None:
    diamond = Diamond()
    diamond.broken = True
    async with working(store.config, Flows(diamond=diamond.build)) as worker:
        old = await submit(client, "diamond", params={"n": 1})
        await worker.run_once(timeout=20.0)
        diamond.broken = False
        done = (await shown(client, old))["tasks"]
        new = await forked(client, old, "right")
        assert await worker.run_once(timeout=20.0) == new
    assert done["fetch"] == "SUCCEEDED"
    assert diamond.executed["fetch"] == 1
    assert diamond.executed["left"] == 2
    assert set((await shown(client, new))["tasks"].values()) == {"SUCCEEDED"}


async def test_a_cancelled_run_is_forked_and_stays_cancelled(client: httpx.AsyncClient, store: Store) -> None:
    ran: list[str] = []
    async with working(store.config, Flows(release=release_flow(ran))) as worker:
        old = await submit(client, "release")
        await worker.run_once(timeout=20.0)
        await client.post(f"/runs/{old}/cancel")
        new = await forked(client, old, "release")
        await until_handled(worker, new)
        assert (await the_run(store, new)).parked
        answer = await client.post(f"/runs/{new}/cancel")
        assert answer.status_code == 200
    assert ran == ["build"]
    assert [(await the_run(store, run_id)).status for run_id in (old, new)] == ["CANCELLED", "CANCELLED"]


async def test_an_approval_before_the_task_stays_answered_and_one_that_is_chosen_asks_again(
    client: httpx.AsyncClient, store: Store
) -> None:
    ran: list[str] = []
    async with working(store.config, Flows(release=release_flow(ran))) as worker:
        old = await submit(client, "release")
        await worker.run_once(timeout=20.0)
        await resume(store, old, "release", "yes")
        await until_handled(worker, old)
        answered = await forked(client, old, "deploy")
        await until_handled(worker, answered)
        assert (await the_run(store, answered)).tasks["deploy"].output == ["v1", "yes"]
        asks = await forked(client, old, "release")
        await until_handled(worker, asks)
        assert set((await the_run(store, asks)).waits) == {"release"}
        await resume(store, asks, "release", "again")
        await until_handled(worker, asks)
    run = await the_run(store, asks)
    assert (run.status, run.tasks["deploy"].output) == ("COMPLETED", ["v1", "again"])
    assert ran == ["build", "deploy", "deploy", "deploy"]
    await lawful(store, asks)


async def test_a_loop_goes_on_from_the_iteration_that_was_chosen(
    client: httpx.AsyncClient, store: Store
) -> None:
    ran: list[str] = []

    def said(name: str) -> Any:
        def work(ctx: Any) -> int:
            ran.append(name + "".join(f"[{frame.index}]" for frame in ctx.loops))
            return len(ran)

        return named(name, work)

    def build() -> Flow:
        flow: Flow = Flow() >> said("load") >> (said("step") >> said("check"))[2] >> said("save")
        return flow

    async with working(store.config, Flows(loop=build)) as worker:
        old = await submit(client, "loop")
        await worker.run_once(timeout=20.0)
        whole = ["load", "step[0]", "check[0]", "step[1]", "check[1]", "save"]
        assert ran == whole
        # Of a retry, too, which begins with results it did not make.
        retried = (await retry(store, old, RetryRequest(), ANONYMOUS)).run.run_id
        await until_handled(worker, retried)
        for run_id in (old, retried):
            ran.clear()
            new = await forked(client, run_id, "step[1]")
            await until_handled(worker, new)
            assert ran == whole[3:]
            records = (await shown(client, new))["task_records"]
            assert records["step"]["output"] == records["step[1]"]["output"] == 1
            ran.clear()
            await until_handled(worker, await forked(client, run_id, "check"))
            assert ran == whole[2:]
        await lawful(store, new)


async def test_a_fork_can_be_forked_and_retried(client: httpx.AsyncClient, store: Store) -> None:
    diamond = Diamond()
    async with working(store.config, Flows(diamond=diamond.build)) as worker:
        old = await submit(client, "diamond", params={"n": 1})
        await worker.run_once(timeout=20.0)
        fork = await forked(client, old, "join")
        await worker.run_once(timeout=20.0)
        again = await forked(client, fork, "left")
        await worker.run_once(timeout=20.0)
        plain = (await client.post(f"/runs/{again}/retry")).json()
    assert diamond.executed == {"fetch": 1, "left": 2, "right": 1, "join": 3}
    assert plain == {"run_id": plain["run_id"], "status": "PENDING", "retry_of": again}
    assert "retry_from" not in await shown(client, plain["run_id"])


@pytest.mark.parametrize(
    ("body", "executed", "output"),
    [
        ({"from": "task", "task": "left", "params": {"n": 5}}, {"left": 2, "join": 2}, [1, 5, -1]),
        ({"from": "start", "params": {"n": 5}}, {"fetch": 2, "left": 2, "right": 2, "join": 2}, [5, 5, -5]),
        ({"params": {"n": 5}}, {}, [1, 1, -1]),
    ],
    ids=["task", "start", "failed"],
)
async def test_other_parameters_are_for_what_is_executed_again(
    client: httpx.AsyncClient, store: Store, body: dict[str, Any], executed: dict[str, int], output: list[int]
) -> None:
    diamond = Diamond()
    async with working(store.config, Flows(diamond=diamond.build)) as worker:
        old = await submit(client, "diamond", params={"n": 1})
        await worker.run_once(timeout=20.0)
        new = (await client.post(f"/runs/{old}/retry", json=body)).json()["run_id"]
        await worker.run_once(timeout=20.0)
    run = await shown(client, new)
    assert (run["params"], run["retry_of"]) == ({"n": 5}, old)
    assert diamond.executed == {"fetch": 1, "left": 1, "right": 1, "join": 1} | executed
    assert run["task_records"]["join"]["output"] == output
    assert (await shown(client, old))["params"] == {"n": 1}


async def test_no_parameters_are_other_parameters(client: httpx.AsyncClient, store: Store) -> None:
    old = await submit(client, params={"n": 1}, tag="nobody")
    await apply(store, old, CancelRun())
    new = (await client.post(f"/runs/{old}/retry", json={"params": {}})).json()["run_id"]
    assert (await shown(client, new))["params"] == {}


def refusal(message: str, kind: str = "value_error", member: str = "task") -> bytes:
    said = {
        "detail": [{"loc": ["body", member], "msg": message, "type": kind}],
        "err_id": "ERR-PYOCO-0002",
        "msg_id": "MSG-PYOCO-0002",
    }
    return json.dumps(said, separators=(",", ":")).encode()[:-1]


NEEDS_TASK = refusal("'from: task' needs 'task', the name of one.", "missing")
NEEDS_FROM = refusal("'task' goes with 'from: task'.")
NO_SUCH = refusal("The run has no such task. It has fetch, left, right, join.")


@pytest.mark.parametrize(
    ("body", "refused"),
    [
        (b'{"from":"task"}', NEEDS_TASK),
        (b'{"task":"left"}', NEEDS_FROM),
        (b'{"from":"failed","task":"left"}', NEEDS_FROM),
        (b'{"from":"start","task":"left"}', NEEDS_FROM),
        (b'{"from":"task","task":"lift"}', NO_SUCH),
        (b'{"from":"task","task":""}', NO_SUCH),
        (b'{"from":"task","task":null}', refusal("Expected `str`, got `null`")),
        (b'{"params":null}', refusal("Expected `object`, got `null`", member="params")),
        (b'{"params":[1]}', refusal("Expected `object`, got `array`", member="params")),
    ],
)
async def test_what_does_not_fit_together_is_refused_with_what_to_change(
    client: httpx.AsyncClient, store: Store, body: bytes, refused: bytes
) -> None:
    diamond = Diamond()
    async with working(store.config, Flows(diamond=diamond.build)) as worker:
        old = await submit(client, "diamond", params={"n": 1})
        await worker.run_once(timeout=20.0)
    answer = await client.post(f"/runs/{old}/retry", content=body, headers={"Accept-Language": "en"})
    assert answer.status_code == 422
    assert answer.content.startswith(refused), answer.text
    assert [run["run_id"] for run in (await client.get("/runs")).json()] == [old]


async def test_of_many_tasks_only_some_are_named(client: httpx.AsyncClient, store: Store) -> None:
    def build() -> Flow:
        return flow_of(*(make_task(f"t{number:02}", lambda: None) for number in range(40)))

    async with working(store.config, Flows(wide=build)) as worker:
        old = await submit(client, "wide")
        await worker.run_once(timeout=10.0)
    answer = await client.post(f"/runs/{old}/retry", json={"from": "task", "task": "x"})
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["msg"].endswith("t28, t29 and 10 more.")
    # Nothing waits for anything here, and so nothing else is executed again.
    assert len((await shown(client, await forked(client, old, "t00")))["tasks"]) == 39


async def test_a_branch_that_was_not_taken_cannot_be_chosen(client: httpx.AsyncClient, store: Store) -> None:
    def build() -> Flow:
        cases = ["left" >> named("left", lambda: "l"), "right" >> named("right", lambda: "r")]
        flow: Flow = Flow() >> named("first", lambda: 1) >> switch("$ctx.params.way")[cases]
        return flow

    async with working(store.config, Flows(branch=build)) as worker:
        old = await submit(client, "branch", params={"way": "left"})
        await worker.run_once(timeout=20.0)
    answer = await client.post(f"/runs/{old}/retry", json={"from": "task", "task": "right"})
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["msg"] == (
        "This task has not begun, and its flow does not say what comes before it. "
        "Choose one that has: first, left."
    )


async def test_a_run_without_a_plan_is_not_forked(client: httpx.AsyncClient, store: Store) -> None:
    old = await submit(client, tag="nobody")
    await apply(store, old, CancelRun())
    body = {"from": "task", "task": "only"}
    answer = await client.post(f"/runs/{old}/retry", json=body)
    assert answer.status_code == 409
    message = f"Run {old} ended before its tasks were planned: their order is not known. "
    assert answer.json()["detail"] == message + "Retry it from 'failed' or 'start'."
    again = (await client.post(f"/runs/{old}/retry")).json()["run_id"]
    assert (await client.post(f"/runs/{again}/retry", json=body)).status_code == 409  # it lives
    await apply(store, again, CancelRun())
    detail = (await client.post(f"/runs/{again}/retry", json=body)).json()["detail"]
    assert detail.endswith(f"Retry it from 'failed' or 'start', or fork run {old}.")


async def test_parameters_are_measured_as_those_of_a_submission(
    client: httpx.AsyncClient, store: Store
) -> None:
    old = await submit(client, tag="nobody")
    await apply(store, old, CancelRun())
    large = {"x": "y" * store.config.params_max_bytes}
    deep = b'{"params":{"x":' + b"[" * 200 + b"]" * 200 + b"}}"
    for path, body in (
        (f"/runs/{old}/retry", {"params": large}),
        ("/runs", {"flow_name": "f", "params": large}),
    ):
        answer = await client.post(path, json=body)
        assert (answer.status_code, answer.json()["err_id"]) == (413, "ERR-PYOCO-0002")
        assert "at most" in answer.json()["detail"]
    refused = await client.post(f"/runs/{old}/retry", content=deep)
    assert (refused.status_code, refused.json()["detail"][0]["loc"]) == (422, ["body", "params"])


async def test_a_document_and_parameters_that_do_not_fit_one_message_are_refused(
    client: httpx.AsyncClient, store: Store
) -> None:
    text = "#" * (store.config.commit_max_bytes - 20_000)
    yaml: dict[str, Any] = {
        "workflow_yaml": text,
        "workflow_yaml_sha256": "abc",
        "workflow_yaml_bytes": len(text),
    }
    old = (await submit_run(store, a_submission(tag="nobody", **yaml))).run.run_id
    await apply(store, old, CancelRun())
    answer = await client.post(f"/runs/{old}/retry", json={"params": {"x": "y" * 30_000}})
    assert (answer.status_code, answer.json()["err_id"]) == (413, "ERR-PYOCO-0002")
    assert "PYOCO_COMMIT_MAX_BYTES" in answer.json()["detail"]
    assert (await client.post(f"/runs/{old}/retry", json={"params": {"x": "y"}})).status_code == 200


async def test_a_fork_with_a_key_is_made_once(client: httpx.AsyncClient, store: Store) -> None:
    diamond = Diamond()
    async with working(store.config, Flows(diamond=diamond.build)) as worker:
        old = await submit(client, "diamond", params={"n": 1})
        await worker.run_once(timeout=20.0)
    path, key = f"/runs/{old}/retry", {"Idempotency-Key": "fork-once"}
    unknown = {"from": "task", "task": "lift"}
    assert (await client.post(path, json=unknown, headers=key)).status_code == 422
    body = {"from": "task", "task": "left", "params": {"n": 2}}
    first, again = [await client.post(path, json=body, headers=key) for _ in range(2)]
    assert (first.status_code, again.content) == (200, first.content)
    assert again.headers["idempotency-replayed"] == "true"
    assert (await client.post(path, json=body | {"task": "right"}, headers=key)).status_code == 409
    assert len((await client.get("/runs")).json()) == 2
