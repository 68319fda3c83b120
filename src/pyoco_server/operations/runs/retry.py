"""Retry an ended run: a new run with the same submission that starts with the results of the old one."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from itertools import islice
from typing import assert_never

import msgspec
from msgspec.structs import replace

from pyoco_server import clock
from pyoco_server.errors import Conflict, Invalid, NotFound, TooLarge
from pyoco_server.ids import new_uuid
from pyoco_server.json_value import JsonObject
from pyoco_server.lifecycle.events import RunSubmitted, TaskStarted, TaskSucceeded
from pyoco_server.lifecycle.retry import NoFork, carry_over, fork_refused, retry_refused, reused_results
from pyoco_server.lifecycle.run import Run, TaskRecord
from pyoco_server.lifecycle.status import OutputKept
from pyoco_server.lifecycle.task_order import TaskOrder, begins_at, task_order_of
from pyoco_server.operations.idempotency.keyed_request import Reservation
from pyoco_server.operations.identity.callers import Caller
from pyoco_server.operations.runs.query import visible
from pyoco_server.operations.runs.submit import Carried, check_params, submit
from pyoco_server.store.runs.codec import encode_commit
from pyoco_server.store.runs.log import StoredRun
from pyoco_server.store.runs.results import Recorded, ResultDamaged
from pyoco_server.store.store import Store

log = logging.getLogger(__name__)

COMMIT_FRAME_BYTES = 64  # of a commit besides its events
NAMED_MAX = 30  # tasks in a sentence


class RetryRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Tasks that had not succeeded are executed again; with `task`, also that task and all tasks after it.

    `from_start`: all tasks are executed again. `params` replaces the parameters of the run.
    """

    from_start: bool = False
    task: str | None = None
    params: JsonObject | None = None
    correlation_id: str | None = None
    traceparent: str | None = None


async def retry(
    store: Store, run_id: str, wanted: RetryRequest, caller: Caller, *, reservation: Reservation | None = None
) -> StoredRun:
    """Conflict for a run that has not ended: two runs would do the same work.

    `reservation`: of a request with an idempotency key. It has the ids of the new run and its first commit.
    """
    new_id = reservation.resource_id if reservation else new_uuid()
    commit_id = reservation.command_id if reservation else None
    if wanted.params is not None:
        check_params(wanted.params, store.config)
    stored = visible(await store.runs.load_confirmed(run_id, whole=True), run_id, caller.tenant_id)
    old = stored.run
    if retry_refused(old):
        message = f"Run {run_id} is {old.status.value}. Cancel it, or wait for its end, and then retry it."
        raise Conflict(message, details={"run_id": run_id, "status": old.status.value})
    submission = _submission(await _load_submission(store, run_id), old, new_id, wanted, caller)
    _check_size(submission, store.config.commit_max_bytes)
    if wanted.from_start:
        return await submit(store, submission, commit_id=commit_id)
    store.room.check()  # before results are copied
    kept = await _load_kept(store, stored, submission)
    if any(record.kept is OutputKept.REFERENCED for record in kept.values()):
        store.leftovers.note_soon(new_id)  # if the run does not begin, nothing refers to the copies
    results = [event for one in await _copy_results(store, old, new_id, kept) for event in carry_over(*one)]
    commits = _commits(submission, results, store.config.commit_max_bytes)
    return await submit(store, submission, commits, commit_id=commit_id)


async def _load_submission(store: Store, run_id: str) -> RunSubmitted:
    first = await store.runs.submission(run_id)
    if first is None:
        raise NotFound(f"The log of run {run_id} does not begin any more: it cannot be tried again.")
    return first


def _submission(
    first: RunSubmitted, old: Run, new_id: str, wanted: RetryRequest, caller: Caller
) -> RunSubmitted:
    return replace(
        first,
        at=clock.now(),
        run_id=new_id,
        params=first.params if wanted.params is None else wanted.params,
        tags=list(old.tags),
        api_key_id=caller.api_key_id,
        correlation_id=wanted.correlation_id or first.correlation_id,
        traceparent=wanted.traceparent,
        retry_of=old.run_id,
        retry_from=wanted.task,
        start_at=None,
        expires_at=None,
        batch_id=None,  # a cancel of the batch is not one of what is started again
    )


def _check_size(submission: RunSubmitted, bytes_max: int) -> None:
    """A flow.yaml that was accepted with small parameters may not fit one message with larger ones."""
    size = len(encode_commit([submission]))
    if size > bytes_max:
        raise TooLarge(
            f"The run takes {size} bytes in the log, more than {bytes_max} (PYOCO_COMMIT_MAX_BYTES). "
            "Make params smaller.",
            err_id="ERR-PYOCO-0002",
        )


async def _load_kept(store: Store, ended: StoredRun, submission: RunSubmitted) -> dict[str, TaskRecord]:
    """The records of the tasks that are not executed again. The log of an ended run does not change."""
    old = ended.run
    history = await store.runs.history(old.run_id, at_leader=True, upto=ended.log_seq)
    order = task_order_of((event for commit in history for event in commit.events), submission.graph)
    if submission.retry_from is not None:
        _check_fork(old, order, submission.retry_from)
    return reused_results(old, order, submission.retry_from)


def _check_fork(old: Run, order: TaskOrder, task: str) -> None:
    match fork_refused(old, order, task):
        case None:
            return
        case NoFork.NOT_PLANNED:
            message = f"Run {old.run_id} ended before its tasks were planned: their order is not known. "
            message += "Retry it from 'failed' or 'start'"
            message += f", or fork run {old.retry_of}." if old.retry_of else "."
            raise Conflict(message, details={"run_id": old.run_id, "status": old.status.value})
        case NoFork.UNKNOWN_TASK:
            raise Invalid.at(["task"], f"The run has no such task. It has {_named(old.tasks)}.")
        case NoFork.NOT_BEGUN:
            begun = [name for name in old.tasks if begins_at(order, name) is not None]
            message = "This task has not begun, and its flow does not say what comes before it. "
            message += f"Choose one that has: {_named(begun)}." if begun else "Retry the run from 'start'."
            raise Invalid.at(["task"], message)
        case reason:
            assert_never(reason)


def _named(tasks: Collection[str]) -> str:
    shown = ", ".join(islice(tasks, NAMED_MAX))
    return shown if len(tasks) <= NAMED_MAX else f"{shown} and {len(tasks) - NAMED_MAX} more"


async def _copy_results(
    store: Store, old: Run, run_id: str, kept: dict[str, TaskRecord]
) -> list[tuple[str, TaskRecord]]:
    """Large results are copied, because erasing the old run removes its objects. A task whose result is
    missing is executed again."""
    found: list[tuple[str, TaskRecord]] = []
    for name, record in kept.items():
        if record.kept is OutputKept.REFERENCED:
            recorded = Recorded(old.run_id, name, record.output)
            try:
                copied = await store.results.copy(recorded, run_id, record.attempt)
            except (NotFound, ResultDamaged) as error:
                fields = {"run_id": old.run_id, "task": name, "error": error.message}
                log.warning("a stored result cannot be used; its task is executed again", extra=fields)
                continue
            found.append((name, replace(record, output=msgspec.to_builtins(copied))))
        else:
            found.append((name, record))
    return found


def _commits(submission: RunSubmitted, results: Carried, bytes_max: int) -> Iterator[Carried]:
    """The first batch fits into one message with the submission; the rest follows in further commits."""
    batch: list[TaskStarted | TaskSucceeded] = []
    room = bytes_max - len(encode_commit([submission]))
    for event in results:
        size = len(msgspec.json.encode(event)) + 1
        if size > room:
            yield batch
            batch, room = [], bytes_max - COMMIT_FRAME_BYTES
        batch.append(event)
        room -= size
    yield batch
