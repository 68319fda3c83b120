"""Commands of whoever asks for them with a key: each has its effect once, and its answer is given again.

In this order: is there such a run and task, was the key used for something else, is it allowed. A command on
a run that was commanded lately reads nothing: see `held_runs`.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from pyoco_server.errors import NotFound
from pyoco_server.lifecycle.commands import Command
from pyoco_server.lifecycle.commit_meta import CommitMeta
from pyoco_server.lifecycle.decide import Reason
from pyoco_server.lifecycle.events import RunSubmitted
from pyoco_server.lifecycle.run import Run
from pyoco_server.operations.apply import Applied as Applied
from pyoco_server.operations.apply import apply
from pyoco_server.operations.fingerprints import Fingerprint
from pyoco_server.operations.held_runs import HeldRuns
from pyoco_server.operations.idempotency import Answer as Answer
from pyoco_server.operations.idempotency import Once as Once
from pyoco_server.operations.idempotency import Reservation, once
from pyoco_server.operations.idempotency_key import IdempotencyKey
from pyoco_server.operations.query import visible
from pyoco_server.operations.redrive import applied_before
from pyoco_server.operations.submit import begin
from pyoco_server.store.refusals import Refusal
from pyoco_server.store.runs import StoredRun
from pyoco_server.store.store import Store

_NOT_THERE = frozenset({Reason.UNKNOWN, Reason.GONE})


class UnknownTask(NotFound):
    """The run is there, and has no such task."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """One command with its key. `name`: how the asker calls it. `asked`: what the key is for, as digests."""

    run_id: str
    name: str
    command: Command
    key: IdempotencyKey
    asked: Fingerprint
    meta: CommitMeta
    task: str | None = None

    @property
    def by(self) -> str | None:
        return self.meta.actor.id if self.meta.actor else None


# From what came of it and the id of its commit to the answer; raises what a refused asker is told.
Tell = Callable[[Applied, str], Answer]


async def drive(store: Store, held: HeldRuns, asked: Asked, tell: Tell) -> Once:
    stored = await found(store, held, asked.run_id, asked.key.tenant)
    if asked.task is not None and asked.task not in stored.run.tasks:
        stored = await _with_task(store, held, asked, asked.task)

    async def do(reservation: Reservation) -> Answer:
        applied = await _applied(store, held, asked, reservation)
        if applied.refused is not None:
            await _note(store, asked, applied)
        return tell(applied, reservation.command_id)

    return await once(store, asked.key, asked.asked, do, resource_id=asked.run_id)


async def create(
    store: Store,
    held: HeldRuns,
    *,
    key: IdempotencyKey,
    asked: Fingerprint,
    submission: Callable[[str], RunSubmitted],
    meta: Callable[[str], CommitMeta],
    tell: Callable[[StoredRun, str], Answer],
) -> Once:
    """Begin a run whose id is made with the reservation, so that a second try finds the first one's."""

    async def do(reservation: Reservation) -> Answer:
        command_id = reservation.command_id
        stored = await begin(
            store, submission(reservation.resource_id), commit_id=command_id, meta=meta(command_id)
        )
        held.put(stored)
        return tell(stored, command_id)

    return await once(store, key, asked, do)


async def found(store: Store, held: HeldRuns, run_id: str, tenant_id: str | None) -> StoredRun:
    """As this gateway knows it, or as the log has it, with all its tasks. 404 after a look at the leader."""
    stored = held.get(run_id) or await store.runs.load(run_id, whole=True)
    if stored is None:
        stored = await store.runs.load(run_id, at_leader=True, whole=True)
    stored = visible(stored, run_id, tenant_id)
    held.put(stored)
    return stored


async def latest(store: Store, held: HeldRuns, run_id: str, tenant_id: str | None) -> Run:
    """As the log has it now, and never older than what this gateway has written."""
    stored = await store.runs.load(run_id, whole=True)
    if stored is None or stored.log_seq < held.log_seq(run_id):
        stored = await store.runs.load(run_id, at_leader=True, whole=True)
    return visible(stored, run_id, tenant_id).run


async def _with_task(store: Store, held: HeldRuns, asked: Asked, task: str) -> StoredRun:
    """What we know may be old, and a worker may have planned it since."""
    stored = visible(
        await store.runs.load(asked.run_id, at_leader=True, whole=True), asked.run_id, asked.key.tenant
    )
    held.put(stored)
    if task not in stored.run.tasks:
        raise UnknownTask(f"Run {asked.run_id} has no such task.")
    return stored


async def _applied(store: Store, held: HeldRuns, asked: Asked, reservation: Reservation) -> Applied:
    async def earlier() -> Applied | None:
        if not reservation.may_have_happened:
            return None
        return await applied_before(store, asked.run_id, reservation.command_id)

    applied = await apply(
        store,
        asked.run_id,
        asked.command,
        held=held.get(asked.run_id),
        commit_id=reservation.command_id,
        whole=True,
        meta=msgspec.structs.replace(asked.meta, causation_id=reservation.command_id),
        earlier=earlier,
    )
    if applied.refused is not None and applied.refused.reason in _NOT_THERE:
        held.drop(asked.run_id)
        visible(None, asked.run_id, asked.key.tenant)
    if applied.after is not None:
        held.put(applied.after)
    return applied


async def _note(store: Store, asked: Asked, applied: Applied) -> None:
    assert applied.refused is not None
    refusal = Refusal(
        at=time.time(),
        command=asked.name,
        reason=applied.refused.reason,
        task=asked.task,
        by=asked.by,
        correlation_id=asked.meta.correlation_id,
    )
    await store.refusals.note(asked.run_id, refusal)
