"""Another try of a run that is over: a new run of the same, which begins with the results the old one had."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from pyoco_server.errors import Conflict, NotFound
from pyoco_server.ids import new_uuid
from pyoco_server.lifecycle.events import RunSubmitted, TaskStarted, TaskSucceeded
from pyoco_server.lifecycle.retry import carried, checkpoints, retry_refused
from pyoco_server.lifecycle.run import Run, TaskRecord
from pyoco_server.lifecycle.status import OutputKept
from pyoco_server.operations.begun import Carried
from pyoco_server.operations.callers import Caller
from pyoco_server.operations.idempotency import Reservation
from pyoco_server.operations.query import visible
from pyoco_server.operations.submit import begin
from pyoco_server.store.codec import encode_commit
from pyoco_server.store.objects import ObjectDamaged
from pyoco_server.store.runs import StoredRun
from pyoco_server.store.store import Store

log = logging.getLogger(__name__)

COMMIT_FRAME_BYTES = 64  # of a commit besides its events


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """`from_start`: execute everything again, and not only what had not succeeded."""

    from_start: bool = False
    correlation_id: str | None = None
    traceparent: str | None = None


async def retry(
    store: Store, run_id: str, wanted: Retry, caller: Caller, *, reservation: Reservation | None = None
) -> StoredRun:
    """Conflict for a run that still lives: two of them would be at the same work.

    `reservation`: of a request that may come twice; it names the new run and its first commit.
    """
    new_id = reservation.resource_id if reservation else new_uuid()
    commit_id = reservation.command_id if reservation else None
    old = visible(await store.runs.load(run_id, at_leader=True, whole=True), run_id, caller.tenant_id).run
    if retry_refused(old):
        message = f"Run {run_id} is {old.status.value}. Cancel it, or wait for its end, and then retry it."
        raise Conflict(message, details={"run_id": run_id, "status": old.status.value})
    submission = _submission(await _submitted(store, run_id), old, new_id, wanted, caller)
    if wanted.from_start:
        return await begin(store, submission, commit_id=commit_id)
    results = [event for one in await _taken_over(store, old, submission.run_id) for event in carried(*one)]
    commits = _commits(submission, results, store.config.commit_max_bytes)
    return await begin(store, submission, commits, commit_id=commit_id)


async def _submitted(store: Store, run_id: str) -> RunSubmitted:
    first = await store.runs.submission(run_id)
    if first is None:
        raise NotFound(f"The log of run {run_id} does not begin any more: it cannot be tried again.")
    return first


def _submission(first: RunSubmitted, old: Run, new_id: str, wanted: Retry, caller: Caller) -> RunSubmitted:
    return replace(
        first,
        at=time.time(),
        run_id=new_id,
        tags=list(old.tags),
        api_key_id=caller.id,
        correlation_id=wanted.correlation_id or first.correlation_id,
        traceparent=wanted.traceparent,
        retry_of=old.run_id,
        start_at=None,
    )


async def _taken_over(store: Store, old: Run, run_id: str) -> list[tuple[str, TaskRecord]]:
    """Large results are copied: those of the old run go when it is erased. What is missing is made again."""
    found: list[tuple[str, TaskRecord]] = []
    for name, record in checkpoints(old).items():
        if record.kept is OutputKept.REFERENCED:
            copied = f"{run_id}/{name}/{record.attempt}"
            try:
                info = await store.results.put(copied, store.results.stream(str(record.output["object"])))
            except (NotFound, ObjectDamaged) as error:
                fields = {"run_id": old.run_id, "task": name, "error": error.message}
                log.warning("a stored result is missing", extra=fields)
                continue
            found.append((name, replace(record, output={"object": copied, "bytes": info.size})))
        else:
            found.append((name, record))
    return found


def _commits(submission: RunSubmitted, results: Carried, bytes_max: int) -> Iterator[Carried]:
    """As much with the submission as one message holds, and the rest after it."""
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
