"""Commands on runs that a client drives.

The order of a request: `check_target` (do the run and the task exist), `KeyedRequest` (was the key used
before), `drive` (is the command allowed). A command on a run that is in the `run_cache` reads nothing.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from pyoco_server import clock
from pyoco_server.errors import NotFound
from pyoco_server.lifecycle.commands import CancelRun, Command
from pyoco_server.lifecycle.commit_meta import CommitMeta
from pyoco_server.lifecycle.decide import Reason, Refused
from pyoco_server.lifecycle.events import RunSubmitted
from pyoco_server.lifecycle.reduce import fold
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import Driver
from pyoco_server.operations.executions.run_cache import RunCache, RunLocks
from pyoco_server.operations.executions.snapshot_coalescer import SnapshotCoalescer
from pyoco_server.operations.idempotency.apply_once import attribution_of
from pyoco_server.operations.idempotency.keyed_request import Reservation
from pyoco_server.operations.runs.apply import Applied, Reading, apply
from pyoco_server.operations.runs.query import visible
from pyoco_server.operations.runs.submit import submit
from pyoco_server.store.runs.refusals import Refusal
from pyoco_server.store.runs.stored_run import StoredRun
from pyoco_server.store.store import Store

_NOT_THERE = frozenset({Reason.UNKNOWN, Reason.GONE})


class UnknownTask(NotFound):
    """The run exists and has no such task."""


class RunCommand(msgspec.Struct, frozen=True, kw_only=True):
    """One command on one run. `name`: the face's name for it. `task`: the task that must exist."""

    run_id: str
    tenant_id: str | None
    name: str
    command: Command
    meta: CommitMeta
    task: str | None = None


class CommandContext:
    """What a gateway needs for commands: the store, the cached runs, their locks and pending snapshots."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.runs = RunCache()
        self.snapshots = SnapshotCoalescer(store)
        self.locks = RunLocks()


async def check_target(context: CommandContext, asked: RunCommand) -> None:
    """NotFound if the run does not exist for this tenant, UnknownTask if it does not have the task."""
    stored = await load_visible(context, asked.run_id, asked.tenant_id)
    if asked.task is None or asked.task in stored.run.tasks:
        return
    # The cached run may be old: a worker may have planned the task since.
    read = await context.store.runs.load_confirmed(asked.run_id, whole=True)
    stored = visible(read, asked.run_id, asked.tenant_id)
    context.runs.put(stored)
    if asked.task not in stored.run.tasks:
        raise _unknown_task(asked)


async def drive(context: CommandContext, asked: RunCommand, reservation: Reservation) -> Applied:
    """Apply the command with the ids of this reservation. A refusal is recorded, to explain the run later;
    not for an answer without the required form, which is an invalid request."""
    if isinstance(asked.command, CancelRun):
        applied = await _apply(context, asked, reservation)  # a cancel does not wait for its turn
    else:
        async with context.locks.of(asked.run_id):
            applied = await _apply(context, asked, reservation)
    if applied.refused is not None and applied.refused.reason is not Reason.ANSWER:
        await _record_refusal(context.store, asked, applied.refused)
    return applied


async def create(
    context: CommandContext, submission: RunSubmitted, meta: CommitMeta, reservation: Reservation
) -> RunSubmitted:
    """Submit the run under the id of this reservation, so that a repeated request finds it."""
    command_id = reservation.command_id
    submission = replace(submission, run_id=reservation.resource_id)
    stored = await submit(
        context.store, submission, commit_id=command_id, meta=replace(meta, causation_id=command_id)
    )
    context.runs.put(stored)
    return submission


async def load_visible(context: CommandContext, run_id: str, tenant_id: str | None) -> StoredRun:
    """The run with all its tasks, from the cache or the log. NotFound is decided by the leader."""
    stored = context.runs.get(run_id) or await context.store.runs.load(run_id, whole=True)
    if stored is None:
        stored = await context.store.runs.load(run_id, at_leader=True, whole=True)
    stored = visible(stored, run_id, tenant_id)
    context.runs.put(stored)
    return stored


async def latest(context: CommandContext, run_id: str, tenant_id: str | None) -> Run:
    """The run as the log has it now, never older than what this gateway wrote: a cached run is folded on."""
    is_cached = context.runs.get(run_id) is not None
    stored = await load_visible(context, run_id, tenant_id)
    newer = await context.store.runs.history(run_id, stored.log_seq) if is_cached else []
    if not newer:
        return stored.run
    if newer[0].number != stored.commits + 1:
        # The run was erased, and perhaps submitted again: the cached state cannot be folded on.
        context.runs.drop(run_id)
        return (await load_visible(context, run_id, tenant_id)).run
    for commit in newer:
        run = fold(stored.run, commit.events)
        assert run is not None
        stored = replace(
            stored, run=run, commits=stored.commits + 1, log_seq=commit.log_seq, chain=commit.chain
        )
    context.runs.put(stored)
    return visible(stored, run_id, tenant_id).run


async def _apply(context: CommandContext, asked: RunCommand, reservation: Reservation) -> Applied:
    held = context.runs.get(asked.run_id)
    # A worker may wait for the snapshot of its run. A client that drives a run does not.
    at_once = held is None or held.run.driver is Driver.WORKER
    meta = replace(asked.meta, causation_id=reservation.command_id)
    applied = await apply(
        context.store,
        asked.run_id,
        asked.command,
        reading=Reading(held=held, whole=True),
        attribution=attribution_of(context.store, reservation, asked.run_id, meta),
        project=at_once,
    )
    reason = applied.refused.reason if applied.refused else None
    if reason in _NOT_THERE:
        context.runs.drop(asked.run_id)
        visible(None, asked.run_id, asked.tenant_id)
    if reason is Reason.UNKNOWN_TASK:
        raise _unknown_task(asked)
    if applied.after is not None:
        context.runs.put(applied.after)
        if applied.events and not at_once:
            await context.snapshots.project(applied.after)
    return applied


def _unknown_task(asked: RunCommand) -> UnknownTask:
    return UnknownTask(f"Run {asked.run_id} has no such task.")


async def _record_refusal(store: Store, asked: RunCommand, refused: Refused) -> None:
    meta = asked.meta
    refusal = Refusal(
        at=clock.now(),
        command=asked.name,
        reason=refused.reason,
        task=asked.task,
        by=meta.actor.id if meta.actor else None,
        correlation_id=meta.correlation_id,
    )
    await store.refusals.note(asked.run_id, refusal)
