"""POST /runs/{id}/retry: a new run that executes only what had not succeeded."""

from __future__ import annotations

from collections import Counter
from typing import Any

import httpx
import pytest

from pyoco_server.errors import NotFound
from pyoco_server.lifecycle.commands import CancelRun, EraseRun
from pyoco_server.lifecycle.events import RunSubmitted
from pyoco_server.operations.idempotency.keyed_request import Reservation
from pyoco_server.operations.identity.callers import ANONYMOUS, Caller
from pyoco_server.operations.runs.apply import apply
from pyoco_server.operations.runs.retry import RetryRequest, retry
from pyoco_server.operations.runs.submit import Submission
from pyoco_server.operations.runs.submit import submit as submitted
from pyoco_server.store.store import Store
from pyoco_server.worker.recording.values import OUTPUT_INLINE_BYTES_MAX
from tests.http_api.interrupted import interrupted
from tests.http_api.serving import expect_error, submit
from tests.worker.stage import (
    Build,
    Flows,
    a_submission,
    chain,
    commits_of,
    history,
    lawful,
    output_of,
    the_run,
    working,
)

NOBODY = "00000000-0000-0000-0000-000000000000"
LARGE = "x" * (OUTPUT_INLINE_BYTES_MAX + 1)


class Steps:
    """A chain of three: the second one fails until it is mended. Counts what is executed."""

    def __init__(self, first: Any = "one") -> None:
        self.executed: Counter[str] = Counter()
        self.broken = True
        self.first = first

    @property
    def build(self) -> Build:
        return chain(self.t1, self.t2, self.t3)

    def t1(self) -> Any:
        self.executed["t1"] += 1
        return self.first

    def t2(self, t1: Any) -> Any:
        self.executed["t2"] += 1
        assert t1 == self.first
        if self.broken:
            raise ValueError("not yet")
        return len(t1)

    def t3(self, t2: int) -> int:
        self.executed["t3"] += 1
        return t2 + 1


async def retried(client: httpx.AsyncClient, run_id: str, **body: str) -> str:
    answer = await client.post(f"/runs/{run_id}/retry", json=body or None)
    assert answer.status_code == 200, answer.text
    accepted = answer.json()
    assert accepted == {"run_id": accepted["run_id"], "status": "PENDING", "retry_of": run_id}
    assert accepted["run_id"] != run_id
    new: str = accepted["run_id"]
    return new


@pytest.mark.parametrize("first", ["one", LARGE, ("a", "tuple")], ids=["small", "large", "tuple"])
async def test_only_what_had_failed_is_executed_again(
    client: httpx.AsyncClient, store: Store, first: Any
) -> None:
    steps = Steps(first)
    async with working(store.config, Flows(steps=steps.build)) as worker:
        failed = await submit(client, "steps", params={"n": 1}, tag="default", tags=["blue"])
        await worker.run_once(timeout=20.0)
        before = (await client.get(f"/runs/{failed}", params={"include": "full"})).json()
        assert before["status"] == "FAILED"
        steps.broken = False
        new = await retried(client, failed)
        pending = (await client.get(f"/runs/{new}")).json()
        assert (pending["status"], pending["tasks"]) == ("PENDING", {"t1": "SUCCEEDED"})
        assert await worker.run_once(timeout=20.0) == new
    assert steps.executed == {"t1": 1, "t2": 2, "t3": 1}
    shown = (await client.get(f"/runs/{new}", params={"include": "full"})).json()
    assert (shown["status"], shown["retry_of"]) == ("COMPLETED", failed)
    assert shown["tasks"] == {"t1": "SUCCEEDED", "t2": "SUCCEEDED", "t3": "SUCCEEDED"}
    assert shown["task_records"]["t3"]["output"] == len(first) + 1
    same = ("flow_name", "params", "tag", "tags")
    assert [shown[name] for name in same] == [before[name] for name in same]
    after = (await client.get(f"/runs/{failed}", params={"include": "full"})).json()
    assert {k: v for k, v in after.items() if not k.startswith("worker_")} == {
        k: v for k, v in before.items() if not k.startswith("worker_")
    }
    await lawful(store, new)


async def test_the_first_commit_says_everything(client: httpx.AsyncClient, store: Store) -> None:
    steps = Steps()
    async with working(store.config, Flows(steps=steps.build)) as worker:
        failed = await submit(client, "steps")
        await worker.run_once(timeout=20.0)
    new = await retried(client, failed)
    (first,) = await commits_of(store, new)
    assert first[0] == "RunSubmitted"
    assert first[-1] == "TaskSucceeded"
    await lawful(store, new)


async def test_from_the_start_everything_is_executed_again(client: httpx.AsyncClient, store: Store) -> None:
    steps = Steps()
    async with working(store.config, Flows(steps=steps.build)) as worker:
        failed = await submit(client, "steps")
        await worker.run_once(timeout=20.0)
        steps.broken = False
        new = await retried(client, failed, **{"from": "start"})
        assert await worker.run_once(timeout=20.0) == new
    assert steps.executed == {"t1": 2, "t2": 2, "t3": 1}
    assert (await client.get(f"/runs/{new}")).json()["retry_of"] == failed
    await lawful(store, new)


async def test_a_retry_can_be_retried(client: httpx.AsyncClient, store: Store) -> None:
    steps = Steps(LARGE)
    async with working(store.config, Flows(steps=steps.build)) as worker:
        failed = await submit(client, "steps")
        await worker.run_once(timeout=20.0)
        again = await retried(client, failed, **{"from": "failed"})
        await worker.run_once(timeout=20.0)
        await apply(store, failed, EraseRun())
        steps.broken = False
        last = await retried(client, again)
        await worker.run_once(timeout=20.0)
    assert steps.executed == {"t1": 1, "t2": 3, "t3": 1}
    assert (await client.get(f"/runs/{last}")).json()["status"] == "COMPLETED"


async def test_a_large_result_of_a_run_that_was_erased_is_the_retrys_own(
    client: httpx.AsyncClient, store: Store
) -> None:
    steps = Steps(LARGE)
    async with working(store.config, Flows(steps=steps.build)) as worker:
        failed = await submit(client, "steps")
        await worker.run_once(timeout=20.0)
        steps.broken = False
        new = await retried(client, failed)
        await store.results.remove_all(failed)
        await worker.run_once(timeout=20.0)
    assert steps.executed == {"t1": 1, "t2": 2, "t3": 1}
    assert (await client.get(f"/runs/{new}")).json()["status"] == "COMPLETED"


async def test_a_large_result_that_is_missing_is_made_again(client: httpx.AsyncClient, store: Store) -> None:
    steps = Steps(LARGE)
    async with working(store.config, Flows(steps=steps.build)) as worker:
        failed = await submit(client, "steps")
        await worker.run_once(timeout=20.0)
        await store.results.remove_all(failed)
        steps.broken = False
        await retried(client, failed)
        await worker.run_once(timeout=20.0)
    assert steps.executed == {"t1": 2, "t2": 2, "t3": 1}


@pytest.mark.parametrize("wanted", [{}, {"from": "task", "task": "t2"}], ids=["retry", "fork"])
async def test_a_large_result_that_is_not_what_was_recorded_is_made_again(
    client: httpx.AsyncClient, store: Store, wanted: dict[str, str]
) -> None:
    steps = Steps(LARGE)
    async with working(store.config, Flows(steps=steps.build)) as worker:
        failed = await submit(client, "steps")
        await worker.run_once(timeout=20.0)
        reference = output_of(await the_run(store, failed), "t1")
        await store.results.objects.put(reference["object"], b'"something else"')
        steps.broken = False
        answer = await client.post(f"/runs/{failed}/retry", json=wanted)
        await worker.run_once(timeout=20.0)
    assert steps.executed == {"t1": 2, "t2": 2, "t3": 1}
    assert (await the_run(store, answer.json()["run_id"])).status == "COMPLETED"


async def test_a_copied_large_result_is_as_it_was_recorded(client: httpx.AsyncClient, store: Store) -> None:
    steps = Steps(LARGE)
    async with working(store.config, Flows(steps=steps.build)) as worker:
        failed = await submit(client, "steps")
        await worker.run_once(timeout=20.0)
        new = await retried(client, failed)
    was, now = [output_of(await the_run(store, run_id), "t1") for run_id in (failed, new)]
    assert now["object"].startswith(f"{new}/0/")
    assert (now["bytes"], now["sha256"]) == (was["bytes"], was["sha256"])


async def test_results_that_fill_more_than_one_message_are_all_carried(
    client: httpx.AsyncClient, store: Store
) -> None:
    count = store.config.commit_max_bytes // OUTPUT_INLINE_BYTES_MAX * 2
    text = "y" * (OUTPUT_INLINE_BYTES_MAX - 100)
    executed: Counter[int] = Counter()

    def step(number: int) -> Any:
        def run() -> str:
            executed[number] += 1
            if number == count and executed[number] == 1:
                raise ValueError("not yet")
            return text

        return run

    flows = Flows(many=chain(*(step(number) for number in range(1, count + 1))))
    async with working(store.config, flows) as worker:
        failed = await submit(client, "many")
        await worker.run_once(timeout=20.0)
        new = await retried(client, failed)
        assert len(await commits_of(store, new)) > 1
        await worker.run_once(timeout=20.0)
    assert executed == Counter(range(1, count + 1)) + Counter({count: 1})
    assert (await the_run(store, new)).status == "COMPLETED"
    await lawful(store, new)


async def test_a_run_that_lives_is_not_retried(client: httpx.AsyncClient) -> None:
    run_id = await submit(client, tag="nobody")
    answer = await client.post(f"/runs/{run_id}/retry")
    assert answer.status_code == 409
    body = answer.json()
    assert (body["run_id"], body["status"]) == (run_id, "PENDING")
    assert "PENDING" in body["detail"]
    await client.post(f"/runs/{run_id}/cancel")
    assert (await client.post(f"/runs/{run_id}/retry")).status_code == 200


async def test_a_repetition_gets_the_retry_of_a_gateway_that_ended_though_the_old_run_is_erased(
    client: httpx.AsyncClient, store: Store
) -> None:
    old = await submit(client, tag="nobody")
    await client.post(f"/runs/{old}/cancel")
    submitted: list[str] = []

    async def have_effect(reservation: Reservation) -> None:
        stored = await retry(store, old, RetryRequest(), ANONYMOUS, reservation=reservation)
        submitted.append(stored.run.run_id)

    await interrupted(store, f"/runs/{old}/retry", "k", b"", have_effect)
    await apply(store, old, EraseRun())
    again = await client.post(f"/runs/{old}/retry", headers={"Idempotency-Key": "k"})
    assert (again.status_code, [again.json().get("run_id")]) == (200, submitted)
    expect_error(
        await client.post(f"/runs/{old}/retry", headers={"Idempotency-Key": "x"}), 404, "ERR-PYOCO-0005"
    )


async def test_what_cannot_be_retried_is_said(client: httpx.AsyncClient, store: Store) -> None:
    for run_id in (NOBODY, "no id"):
        expect_error(await client.post(f"/runs/{run_id}/retry"), 404, "ERR-PYOCO-0005")
    run_id = await submit(client, tag="nobody")
    await client.post(f"/runs/{run_id}/cancel")
    for body in (b"{", b"[]", b'{"from": "middle"}', b'{"from": 1}', b"\xff", b"[" * 5000):
        expect_error(await client.post(f"/runs/{run_id}/retry", content=body), 422, "ERR-PYOCO-0002")
    for accepted in (b"", b" ", b"{}", b'{"from": "failed", "more": 1}'):
        assert (await client.post(f"/runs/{run_id}/retry", content=accepted)).status_code == 200
    await apply(store, run_id, EraseRun())
    expect_error(await client.post(f"/runs/{run_id}/retry"), 404, "ERR-PYOCO-0005")


async def test_a_retry_stays_with_its_tenant_and_names_who_asked(store: Store) -> None:
    wanted = Submission(flow_name="noop", tenant_id="ours", api_key_id="k1", correlation_id="c1")
    old = await submitted(store, wanted)
    await apply(store, old.run.run_id, CancelRun())
    with pytest.raises(NotFound):
        await retry(store, old.run.run_id, RetryRequest(), Caller(tenant_id="theirs", id="k2"))
    new = await retry(
        store, old.run.run_id, RetryRequest(traceparent="t2"), Caller(tenant_id="ours", id="k3")
    )
    first, *_ = await history(store, new.run.run_id)
    assert isinstance(first, RunSubmitted)
    assert (first.tenant_id, first.api_key_id, first.retry_of) == ("ours", "k3", old.run.run_id)
    assert (first.correlation_id, first.traceparent) == ("c1", "t2")


async def test_the_yaml_goes_with_it(store: Store) -> None:
    yaml: dict[str, Any] = {
        "workflow_yaml": "flow: {}",
        "workflow_yaml_sha256": "abc",
        "workflow_yaml_bytes": 8,
    }
    old = await submitted(store, a_submission(tag="nobody", **yaml))
    await apply(store, old.run.run_id, CancelRun())
    new = await retry(store, old.run.run_id, RetryRequest(), ANONYMOUS)
    first = await store.runs.submission(new.run.run_id)
    assert first is not None
    assert {name: getattr(first, name) for name in yaml} == yaml
