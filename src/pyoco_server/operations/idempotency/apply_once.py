"""Commands of a request that may be repeated: committed with the id from its reservation.

If that id is in the log already, the outcome is read from the log.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyoco_server.lifecycle.commands import Command
from pyoco_server.lifecycle.commit_meta import CommitMeta
from pyoco_server.lifecycle.reduce import fold
from pyoco_server.lifecycle.run import owes_job
from pyoco_server.operations.idempotency.keyed_request import Reservation
from pyoco_server.operations.runs.apply import Applied, Attribution, Reading, apply, publish_job
from pyoco_server.store.runs.codec import Commit
from pyoco_server.store.runs.stored_run import StoredRun
from pyoco_server.store.store import Store


async def apply_once(
    store: Store,
    reservation: Reservation,
    run_id: str,
    *asked: Command,
    whole: bool = False,
    meta: CommitMeta | None = None,
) -> Applied:
    """`apply` with one effect, however often the request is repeated."""
    attribution = attribution_of(store, reservation, run_id, meta)
    return await apply(store, run_id, *asked, reading=Reading(whole=whole), attribution=attribution)


def attribution_of(
    store: Store, reservation: Reservation, run_id: str, meta: CommitMeta | None = None
) -> Attribution:
    """Commits of this reservation. If one is in the log already, `apply` returns its outcome."""

    async def earlier() -> Applied | None:
        if not reservation.may_have_happened:
            return None
        return await applied_before(store, run_id, reservation.command_id)

    return Attribution(commit_id=reservation.command_id, meta=meta, earlier=earlier)


async def applied_before(store: Store, run_id: str, commit_id: str) -> Applied | None:
    """The outcome of an earlier commit, reconstructed from the log; None if there is no such commit."""
    found = await store.runs.find_commit(run_id, commit_id)
    if found is None:
        return None
    history = await store.runs.history(run_id, at_leader=True)
    before = _state([commit for commit in history if commit.log_seq < found.log_seq])
    after = _after(before, found)
    await _publish_owed_job(store, before, after)
    return Applied(before=before, after=after, events=tuple(found.events))


async def _publish_owed_job(store: Store, before: StoredRun | None, after: StoredRun) -> None:
    """The process that committed may have stopped before. A second job has no effect: jobs are numbered."""
    if not owes_job(after.run) or (before is not None and before.run.job_no == after.run.job_no):
        return
    now = await store.runs.load(after.run.run_id, at_leader=True)
    if now is not None and owes_job(now.run) and now.run.job_no == after.run.job_no:
        await publish_job(store, now)


def _state(history: Sequence[Commit]) -> StoredRun | None:
    state: StoredRun | None = None
    for commit in history:
        state = _after(state, commit)
    return state


def _after(before: StoredRun | None, commit: Commit) -> StoredRun:
    run = fold(before.run if before else None, commit.events)
    assert run is not None, "a commit always leaves a run"
    commits = before.commits + 1 if before else 1
    return StoredRun(run=run, commits=commits, log_seq=commit.log_seq, revision=0, chain=commit.chain)
