"""The only way to change a run: load, decide, commit, project, and publish the job that it owes.

When two callers change a run at once, the log accepts one commit and the other caller decides again on the
new state. A refusal, or "nothing to do", is returned only after a majority of the brokers confirms the state
that it was decided on. Jobs of runs that exist already are published here, except where a repeated request
finds its commit in the log but no job (`submit`, `apply_once`).
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import get_args

import msgspec
from msgspec.structs import replace

from pyoco_server import clock
from pyoco_server.errors import Unavailable
from pyoco_server.lifecycle.commands import Command, NeedsAllTasks
from pyoco_server.lifecycle.commit_meta import CommitMeta
from pyoco_server.lifecycle.decide import Events, Reason, Refused, decide_and_fold
from pyoco_server.lifecycle.reduce import fold
from pyoco_server.lifecycle.run import owes_job
from pyoco_server.store.runs.log import Overtaken, StoredRun, new_commit_id
from pyoco_server.store.store import Store

log = logging.getLogger(__name__)

DECIDE_TRIES_MAX = 32
# A set: `isinstance` compares a command with all of them, and most commands are none.
_NEED_ALL_TASKS = frozenset(get_args(NeedsAllTasks))


class Applied(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome. `before` is the state that the decision was made on. No events: nothing had to be done."""

    before: StoredRun | None
    after: StoredRun | None
    events: Events = ()
    refused: Refused | None = None


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """Which state the first decision is made on.

    `held`: the state that the caller has already, which saves a read. `whole`: the caller needs all tasks
    with their results, also those that a snapshot leaves out.
    """

    held: StoredRun | None = None
    whole: bool = False


class Attribution(msgspec.Struct, frozen=True, kw_only=True):
    """Which request a commit belongs to.

    `commit_id`: with it, the same commands can be applied again after an Unavailable and have one effect.
    `meta`: the caller. `earlier`: finds the outcome of an earlier commit with this `commit_id`. It is called
    after each read, so the earlier commit is either found or makes our append fail.
    """

    commit_id: str | None = None
    meta: CommitMeta | None = None
    earlier: Callable[[], Awaitable[Applied | None]] | None = None


_FROM_STORE = Reading()
_ANONYMOUS = Attribution()


async def apply(
    store: Store,
    run_id: str,
    *asked: Command,
    reading: Reading = _FROM_STORE,
    attribution: Attribution = _ANONYMOUS,
    at: float | None = None,
    project: bool = True,
) -> Applied:
    """Commit what these commands decide, in one commit.

    With `project=False` the caller writes the snapshot itself, because it has more to put into it.
    """
    whole = reading.whole or not _NEED_ALL_TASKS.isdisjoint(map(type, asked))
    commit_id, meta = attribution.commit_id or new_commit_id(), attribution.meta
    at_leader = False
    stored = reading.held or await store.runs.load(run_id, whole=whole)
    for tries in range(DECIDE_TRIES_MAX):
        if attribution.earlier is not None and (known := await attribution.earlier()) is not None:
            return known
        instant = clock.now() if at is None else at
        decided = decide_and_fold(stored.run if stored else None, asked, instant)
        decision = decided if isinstance(decided, Refused) else decided[0]
        if isinstance(decided, Refused) or isinstance(decision, Refused) or not decision:
            if at_leader and await store.runs.is_latest(run_id, stored):
                return _nothing(stored, decision)
            stored, at_leader = await store.runs.load(run_id, at_leader=True, whole=whole), True
            continue
        try:
            committed = await store.runs.append(stored, decision, commit_id, leads_to=decided[1], meta=meta)
        except Overtaken as overtaken:
            if overtaken.now is None:
                # Only the mark of an erased run is left, and no run can begin while it exists. If a run was
                # read before and the leader has not even a mark, the log of the run is lost.
                return _nothing(None, Refused(Reason.GONE if stored is None else Reason.UNKNOWN))
            stored, at_leader = _with_newer_revision(overtaken.now, stored), True
            await _step_aside(tries)
            continue
        after = await _follow_up(store, stored, committed, project=project)
        return Applied(before=stored, after=after, events=decision)
    raise Unavailable(f"Run {run_id} changes too fast to be changed. Try again.")


def _nothing(stored: StoredRun | None, decision: Events | Refused) -> Applied:
    refused = decision if isinstance(decision, Refused) else None
    return Applied(before=stored, after=stored, refused=refused)


def _with_newer_revision(now: StoredRun | None, known: StoredRun | None) -> StoredRun | None:
    return replace(now, revision=max(now.revision, known.revision)) if now and known else now


async def _step_aside(tries: int) -> None:
    """The first collision is retried at once. Later ones wait a random time, because many callers compete."""
    if tries:
        await asyncio.sleep(random.uniform(0, 0.002 * tries))


async def _follow_up(store: Store, before: StoredRun | None, after: StoredRun, *, project: bool) -> StoredRun:
    """The commit is in the log. What fails here is repaired by the next reader and by housekeeping."""
    needs_job = owes_job(after.run) and (before is None or after.run.job_no != before.run.job_no)
    try:
        if project or needs_job or after.run.gone:
            after = await store.runs.snapshots.project(after)
        if needs_job:
            await publish_job(store, after)
        if _may_leave_objects(before, after):
            store.leftovers.note_soon(after.run.run_id)
    except Unavailable as error:
        fields = {"run_id": after.run.run_id, "error": error.message, "job_owed": needs_job}
        log.warning("committed, but not followed up yet", exc_info=error, extra=fields)
    return after


def _may_leave_objects(before: StoredRun | None, after: StoredRun) -> bool:
    """The run ended, and a worker may have stored results that it neither recorded nor removed."""
    run = after.run
    was_over = before is not None and before.run.is_terminal
    return run.is_terminal and not was_over and not run.gone and (run.fence > 1 or run.losses > 0)


async def publish_job(store: Store, stored: StoredRun) -> None:
    submission = await store.runs.submission(stored.run.run_id)
    assert submission is not None, "a run that owes a job has begun"
    await store.queue.publish(submission, stored)


def fold_some(before: StoredRun, events: Events) -> StoredRun:
    """The state after only some events of a commit, for faces that show a step in between."""
    run = fold(before.run, events)
    assert run is not None
    return replace(before, run=run)
