"""Publishes dead letters that are missing, once for each noted run.

A note is written before the commit that fails a run. A worker also writes one when it cannot publish a
letter, or when a job of a failed run is delivered again. The log shows whether the run needs a letter, and
the stream of letters whether it has one. A message id prevents a second letter while a reader does not see
the first one yet.
"""

from __future__ import annotations

import logging

from pyoco_server.clock import elapsed
from pyoco_server.errors import Unavailable
from pyoco_server.housekeeping.isolation import Isolation
from pyoco_server.lifecycle.events import RunClaimed, RunFailed, RunParked
from pyoco_server.lifecycle.status import RunStatus
from pyoco_server.operations.fleet.publish_dead_letter import (
    has_dead_letter,
    letter_reason,
    publish_dead_letter,
)
from pyoco_server.store.run_notes import RunNote
from pyoco_server.store.runs.log import StoredRun
from pyoco_server.store.store import Store

log = logging.getLogger(__name__)

# The rest is processed in the next look.
RUNS_AT_ONCE = 100
LOOK_EVERY_SEC = 5.0
# The process that wrote the note is usually about to write the letter.
SETTLED_SEC = 10.0


class MissingLetters:
    def __init__(self, store: Store, *, settled_sec: float = SETTLED_SEC) -> None:
        self._store = store
        self._settled_sec = settled_sec
        self._isolation = Isolation("missing letters")
        self._look_at = float("-inf")

    async def look(self) -> int:
        """Returns how many letters were published."""
        if elapsed() < self._look_at:
            return 0
        noted = await self._store.owed_letters.oldest(RUNS_AT_ONCE)
        due = [one for one in noted if one.age_sec >= self._settled_sec]
        written = await self._isolation.each_run(due, self._process)
        self._look_at = elapsed() + (0.0 if len(due) == RUNS_AT_ONCE else LOOK_EVERY_SEC)
        return written

    async def _process(self, noted: RunNote[str]) -> bool:
        stored = await self._store.runs.load(noted.run_id, at_leader=True)
        if stored is not None and not stored.run.gone and not stored.run.is_terminal:
            # The commit is missing. A process that was paused may still send it, so the note stays.
            await self._store.owed_letters.note(noted.run_id, noted.value)
            return False
        is_missing = (
            stored is not None
            and await self._is_owed(stored, noted.value)
            and not await has_dead_letter(self._store, stored.run, noted.value)
        )
        if is_missing and stored is not None:
            if not await publish_dead_letter(self._store, stored.run, noted.value):
                raise Unavailable(f"The dead letter of run {noted.run_id} could not be published.")
            log.info("a missing dead letter was published", extra={"run_id": noted.run_id})
        await self._store.owed_letters.remove(noted.run_id, noted.revision)
        return is_missing

    async def _is_owed(self, stored: StoredRun, reason: str) -> bool:
        """False if the run ended in another way than the note expects."""
        run = stored.run
        if run.gone or run.status is not RunStatus.FAILED or letter_reason(run) != reason:
            return False
        return await self._was_claimed_at_end(stored)

    async def _was_claimed_at_end(self, ended: StoredRun) -> bool:
        """Whether the run failed while a worker held it. A run that a wait's timeout ends has no letter."""
        commits = await self._store.runs.history(ended.run.run_id, at_leader=True, upto=ended.log_seq)
        is_claimed = False
        for event in (event for commit in commits for event in commit.events):
            if isinstance(event, RunFailed):
                return is_claimed
            is_claimed = isinstance(event, RunClaimed) or (is_claimed and not isinstance(event, RunParked))
        return False
