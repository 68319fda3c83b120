"""Commands with an idempotency key: each has one effect, and a repeated request gets the same answer.

In this order: is there such a run and task, was the key used for something else, is it allowed. A command on
a run that was commanded lately reads nothing: see `run_cache`.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from pyoco_server import clock
from pyoco_server.errors import NotFound
from pyoco_server.lifecycle.commands import CancelRun, Command
from pyoco_server.lifecycle.commit_meta import CommitMeta
from pyoco_server.lifecycle.decide import Reason
from pyoco_server.lifecycle.events import RunSubmitted
from pyoco_server.lifecycle.reduce import fold
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import Driver
from pyoco_server.operations.executions.run_cache import RunCache
from pyoco_server.operations.executions.run_locks import RunLocks
from pyoco_server.operations.executions.snapshot_coalescer import SnapshotCoalescer
from pyoco_server.operations.idempotency.apply_once import attribution_of
from pyoco_server.operations.idempotency.key_scope import IdempotencyKey
from pyoco_server.operations.idempotency.once import Once, RecordedAnswer, Reservation, once
from pyoco_server.operations.idempotency.request_digest import RequestDigest
from pyoco_server.operations.runs.apply import Applied, Reading, apply
from pyoco_server.operations.runs.query import visible
from pyoco_server.operations.runs.submit import submit
from pyoco_server.store.runs.log import StoredRun
from pyoco_server.store.runs.refusals import Refusal
from pyoco_server.store.store import Store

_NOT_THERE = frozenset({Reason.UNKNOWN, Reason.GONE})


class UnknownTask(NotFound):
    """The run is there, and has no such task."""


class KeyedCommand(msgspec.Struct, frozen=True, kw_only=True):
    """One command with its key. `name`: how the asker calls it. `asked`: what the key is for, as digests."""

    run_id: str
    name: str
    command: Command
    key: IdempotencyKey
    asked: RequestDigest
    meta: CommitMeta
    task: str | None = None

    @property
    def by(self) -> str | None:
        return self.meta.actor.id if self.meta.actor else None


# From what came of it and the id of its commit to the answer; raises what a refused asker is told.
Tell = Callable[[Applied, str], RecordedAnswer]


class CommandContext:
    """Where a gateway takes commands: the store, the runs it holds, and the snapshots it owes them."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.held = RunCache()
        self.snapshots = SnapshotCoalescer(store)
        self.turns = RunLocks()

    def forget(self) -> None:
        self.held.forget()

    async def close(self) -> None:
        await self.snapshots.close()


async def drive(desk: CommandContext, asked: KeyedCommand, tell: Tell) -> Once:
    stored = await found(desk, asked.run_id, asked.key.tenant)
    if asked.task is not None and asked.task not in stored.run.tasks:
        await _check_task(desk, asked, asked.task)

    async def do(reservation: Reservation) -> RecordedAnswer:
        applied = await _in_turn(desk, asked, reservation)
        if applied.refused is not None:
            await _note(desk.store, asked, applied)
        return tell(applied, reservation.command_id)

    return await once(desk.store, asked.key, asked.asked, do, resource_id=asked.run_id)


async def create(
    desk: CommandContext,
    *,
    key: IdempotencyKey,
    asked: RequestDigest,
    submission: Callable[[str], RunSubmitted],
    meta: Callable[[str], CommitMeta],
    tell: Callable[[StoredRun, str], RecordedAnswer],
) -> Once:
    """Begin a run whose id is made with the reservation, so that a second try finds the first one's."""

    async def do(reservation: Reservation) -> RecordedAnswer:
        command_id = reservation.command_id
        stored = await submit(
            desk.store, submission(reservation.resource_id), commit_id=command_id, meta=meta(command_id)
        )
        desk.held.put(stored)
        return tell(stored, command_id)

    return await once(desk.store, key, asked, do, needs_room=True)


async def found(desk: CommandContext, run_id: str, tenant_id: str | None) -> StoredRun:
    """As this gateway knows it, or as the log has it, with all its tasks. 404 after a look at the leader."""
    stored = desk.held.get(run_id) or await desk.store.runs.load(run_id, whole=True)
    if stored is None:
        stored = await desk.store.runs.load(run_id, at_leader=True, whole=True)
    stored = visible(stored, run_id, tenant_id)
    desk.held.put(stored)
    return stored


async def latest(desk: CommandContext, run_id: str, tenant_id: str | None) -> Run:
    """As the log has it now, and never older than what this gateway has written: what is held is read on."""
    is_held = desk.held.get(run_id) is not None
    stored = await found(desk, run_id, tenant_id)
    newer = await desk.store.runs.history(run_id, stored.log_seq) if is_held else []
    if not newer:
        return stored.run
    if newer[0].number != stored.commits + 1:
        # The run was erased, and perhaps submitted again: the held state cannot be folded on.
        desk.held.drop(run_id)
        return (await found(desk, run_id, tenant_id)).run
    for commit in newer:
        run = fold(stored.run, commit.events)
        assert run is not None
        stored = replace(
            stored, run=run, commits=stored.commits + 1, log_seq=commit.log_seq, chain=commit.chain
        )
    desk.held.put(stored)
    return visible(stored, run_id, tenant_id).run


async def _check_task(desk: CommandContext, asked: KeyedCommand, task: str) -> None:
    """What we hold may be old, and a worker may have planned it since."""
    read = await desk.store.runs.load_confirmed(asked.run_id, whole=True)
    stored = visible(read, asked.run_id, asked.key.tenant)
    desk.held.put(stored)
    if task not in stored.run.tasks:
        raise UnknownTask(f"Run {asked.run_id} has no such task.")


async def _in_turn(desk: CommandContext, asked: KeyedCommand, reservation: Reservation) -> Applied:
    if isinstance(asked.command, CancelRun):
        return await _apply(desk, asked, reservation)  # a cancel does not queue
    async with desk.turns.of(asked.run_id):
        return await _apply(desk, asked, reservation)


async def _apply(desk: CommandContext, asked: KeyedCommand, reservation: Reservation) -> Applied:
    held = desk.held.get(asked.run_id)
    # A worker may wait for the snapshot of its run. A client that drives a run does not.
    at_once = held is None or held.run.driver is Driver.WORKER
    meta = replace(asked.meta, causation_id=reservation.command_id)
    applied = await apply(
        desk.store,
        asked.run_id,
        asked.command,
        reading=Reading(held=held, whole=True),
        attribution=attribution_of(desk.store, reservation, asked.run_id, meta),
        project=at_once,
    )
    if applied.refused is not None and applied.refused.reason in _NOT_THERE:
        desk.held.drop(asked.run_id)
        visible(None, asked.run_id, asked.key.tenant)
    if applied.refused is not None and applied.refused.reason is Reason.UNKNOWN_TASK:
        raise UnknownTask(f"Run {asked.run_id} has no such task.")
    if applied.after is not None:
        desk.held.put(applied.after)
        if applied.events and not at_once:
            await desk.snapshots.project(applied.after)
    return applied


async def _note(store: Store, asked: KeyedCommand, applied: Applied) -> None:
    assert applied.refused is not None
    refusal = Refusal(
        at=clock.now(),
        command=asked.name,
        reason=applied.refused.reason,
        task=asked.task,
        by=asked.by,
        correlation_id=asked.meta.correlation_id,
    )
    await store.refusals.note(asked.run_id, refusal)
