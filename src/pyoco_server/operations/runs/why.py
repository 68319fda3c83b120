"""Explains the state of a run: what it waits for, or which rule ended it. The texts are in `texts`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import msgspec

from pyoco_server import clock
from pyoco_server.lifecycle.graph import Join
from pyoco_server.lifecycle.run import Claim, Run, TaskRecord
from pyoco_server.lifecycle.status import Driver, RunStatus, TaskStatus
from pyoco_server.lifecycle.waits import EXPIRED
from pyoco_server.operations.fleet.workers import Entry, alive, lease_overdue_sec, tags_of
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.runs.refusals import Refusal
from pyoco_server.store.store import Store

# At most so many tasks are listed one by one.
TASKS_MAX = 20
# The count of runs ahead in the queue stops here.
AHEAD_MAX = 1_000
# The leases of so many workers are read; for the others the registry entry decides.
LEASES_READ_MAX = 20


class Because(msgspec.Struct, frozen=True):
    """The name of a sentence, and the values in it."""

    name: str
    fields: dict[str, object] = {}


async def why(store: Store, read_model: ReadModel, run: Run) -> list[Because]:
    """The first is the short answer."""
    if run.ended is not None:
        return list(_ended(run, run.ended))
    if run.cancel is not None:
        return [Because("cancelling", {"at": run.cancel.at, "by": run.cancel.by, "worker": _holder(run)})]
    if run.driver is Driver.WORKER:
        return await _of_workers(store, read_model, run)
    return list(_of_clients(run))


async def refusals_of(store: Store, run_id: str) -> list[Refusal]:
    return await store.refusals.of(run_id)


def _ended(run: Run, ended: RunStatus) -> Iterator[Because]:
    match ended:
        case RunStatus.COMPLETED:
            yield Because("completed", {"at": run.ended_at})
            for name, record in run.tasks.items():
                if record.state is TaskStatus.FAILED:
                    yield Because("forgiven", {"task": name, "error": record.error})
        case RunStatus.CANCELLED:
            if run.expires_at is not None and run.cancel and run.cancel.reason == EXPIRED:
                yield Because("expired", {"at": run.expires_at})
            else:
                at, by = (run.cancel.at, run.cancel.by) if run.cancel else (run.ended_at, None)
                yield Because("cancelled", {"at": at, "by": by})
        case _:
            yield Because("failed", {"reason": run.reason, "error": run.error, "task": run.failed_task})
            for name, record in run.tasks.items():
                if record.state is TaskStatus.FAILED and name != run.failed_task:
                    yield Because("task_failed", {"task": name, "error": record.error})


async def _of_workers(store: Store, read_model: ReadModel, run: Run) -> list[Because]:
    waits = list(_waits(run))
    if run.parked:
        return waits or [Because("parked")]
    if run.claim is not None:
        return [*await _at_worker(store, run.claim), *_tried_again(run), *waits]
    if run.start_at is not None and run.start_at > clock.now():
        return [Because("not_yet", {"at": run.start_at}), *_expiry(run)]
    workers = [one for one in await alive(store) if run.tag in tags_of(one)]
    return [_in_line(run, await _with_lease(store, workers), read_model), *_expiry(run)]


def _expiry(run: Run) -> Iterator[Because]:
    if run.expires_at is not None and run.started_at is None:
        yield Because("expires", {"at": run.expires_at})


async def _with_lease(store: Store, workers: list[Entry]) -> list[Entry]:
    """Without workers whose lease is overdue: their registry entries look alive for longer."""
    read, others = workers[:LEASES_READ_MAX], workers[LEASES_READ_MAX:]
    overdue = await asyncio.gather(*(lease_overdue_sec(store, str(one["instance_id"] or "")) for one in read))
    return [one for one, sec in zip(read, overdue, strict=True) if sec is None] + others


async def _at_worker(store: Store, claim: Claim) -> list[Because]:
    """An overdue lease is the first sign of a loss. After the lease period the run is taken over."""
    silent_sec, config = await lease_overdue_sec(store, claim.instance_id), store.config
    if silent_sec is None:
        return [Because("at_worker", {"worker": claim.worker_id})]
    since = clock.now() - silent_sec
    taken_at = since + config.worker_lease_sec + config.housekeeping_interval_sec
    return [Because("worker_lost", {"worker": claim.worker_id, "since": since, "at": taken_at})]


def _tried_again(run: Run) -> Iterator[Because]:
    """Tasks that the engine retries soon."""
    failed = [
        (name, record)
        for name, record in run.tasks.items()
        if record.state is TaskStatus.PENDING and record.error is not None
    ]
    for name, record in failed[:TASKS_MAX]:
        fields = {"task": name, "attempt": record.attempt + 1, "error": record.error}
        yield Because("trying_again", fields)


def _in_line(run: Run, workers: list[Entry], read_model: ReadModel) -> Because:
    """`workers`: the live workers that serve its tag."""
    since = run.job_owed_since
    if not workers:
        return Because("no_worker", {"tag": run.tag, "since": since})
    if all(one["draining"] for one in workers):
        return Because("draining", {"tag": run.tag, "count": len(workers), "since": since})
    ahead = read_model.housekeeping.owed_before(run.tag, since, at_most=AHEAD_MAX) if since is not None else 0
    return Because("queued", {"tag": run.tag, "since": since, "ahead": ahead})


def _of_clients(run: Run) -> Iterator[Because]:
    if run.started_at is None:
        yield Because("not_started")
        return
    by_state: dict[TaskStatus, list[tuple[str, TaskRecord]]] = {}
    for name, record in run.tasks.items():
        by_state.setdefault(record.state, []).append((name, record))
    yield from _waits(run)
    for name, record in by_state.get(TaskStatus.RUNNING, ())[:TASKS_MAX]:
        yield Because("running", {"task": name, "worker": record.worker_id, "until": run.due.get(name)})
    for name, record in by_state.get(TaskStatus.READY, ())[:TASKS_MAX]:
        yield Because("ready", {"task": name, "attempt": record.attempt + 1})
    yield from _pending(run, by_state.get(TaskStatus.PENDING, [])[:TASKS_MAX])


def _pending(run: Run, pending: list[tuple[str, TaskRecord]]) -> Iterator[Because]:
    graph = {task.id: task for task in run.graph.nodes} if run.graph else {}
    for name, record in pending:
        if name in run.due:
            yield Because("retrying", {"task": name, "at": run.due[name], "error": record.error})
        elif name in graph:
            before = [one for one in graph[name].after if not run.tasks[one].state.is_finished]
            every = graph[name].join is not Join.ANY_SUCCESS
            yield Because("after", {"task": name, "tasks": before, "every": every})


def _waits(run: Run) -> Iterator[Because]:
    waiting = [(name, record.wait) for name, record in run.tasks.items() if record.wait is not None]
    for name, wait in waiting[:TASKS_MAX]:
        assert wait is not None
        fields = {"task": name, "key": wait.key, "since": wait.since, "until": wait.deadline_at}
        yield Because("waiting", fields)


def _holder(run: Run) -> str | None:
    return run.claim.worker_id if run.claim else None
