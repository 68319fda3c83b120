"""Apply what is due in a run by time alone: timeouts, backoffs, waits, and its expiry."""

from __future__ import annotations

from pyoco_server.lifecycle.commands import PassTime
from pyoco_server.lifecycle.commit_meta import Actor, ActorKind, CommitMeta
from pyoco_server.lifecycle.events import RunCancelled
from pyoco_server.operations.logs.notices import EXPIRED, note_soon
from pyoco_server.operations.runs.apply import Applied, Attribution, apply
from pyoco_server.store.store import Store

_BY_TIME = CommitMeta(actor=Actor(ActorKind.SYSTEM, "housekeeping"))


async def pass_time(store: Store, run_id: str, at: float) -> Applied:
    applied = await apply(store, run_id, PassTime(), at=at, attribution=Attribution(meta=_BY_TIME))
    if any(isinstance(event, RunCancelled) for event in applied.events):
        await note_soon(store, run_id, EXPIRED)  # no worker had the run, so none writes this line
    return applied
