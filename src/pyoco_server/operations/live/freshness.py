"""Whether a state from the feed is at least as new as everything that was stored before a request began.

The feed may lag: a client may have read or changed the run elsewhere, for example at another gateway, and
must not be shown an older state. Two proofs are accepted. The end came from the feed during the request, and
is later in the log than a commit that this process sent after the request began. Or the last commit of the
run was read after the request began, and the state has it.
"""

from __future__ import annotations

import asyncio

from pyoco_server.errors import Unavailable
from pyoco_server.store.runs.sent_commits import SendMark
from pyoco_server.store.runs.stored_run import StoredRun
from pyoco_server.store.store import Store
from pyoco_server.supervision import start_task

# On a gateway with other submissions the first proof comes by itself. So the second is prepared, while the
# request waits, only if no other request waits: then it costs no time at the end.
ASK_AFTER_SEC = 0.001


class FreshnessCheck:
    """`began`: the mark of the moment at which the request began. Close it."""

    def __init__(self, store: Store, run_id: str, began: SendMark) -> None:
        self._store = store
        self._run_id = run_id
        self._sent = store.runs.sent_commits
        self._mark = began
        self._reading: asyncio.Task[int | None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def prepare_soon(self) -> None:
        """Ask for the last commit while the request waits, unless the first proof is likely to come."""
        self._timer = asyncio.get_running_loop().call_later(ASK_AFTER_SEC, self._prepare)

    def close(self) -> None:
        self._stop_timer()
        if self._reading is not None:
            self._reading.cancel()

    async def passes(self, stored: StoredRun, *, was_pushed: bool) -> bool:
        """`was_pushed`: this state came from the feed during the request."""
        was_pushed = was_pushed and self._sent.is_same_connection(self._mark)
        if was_pushed:
            before = self._sent.stored_after(self._mark)
            if before is not None and before < stored.log_seq:
                return True
        last_seq = await self._last_seq()
        if last_seq is None or not self._sent.is_same_connection(self._mark):
            return False
        return last_seq == stored.log_seq or (was_pushed and 0 < last_seq < stored.log_seq)

    def _prepare(self) -> None:
        if not self._sent.has_sent_after(self._mark):
            self._reading = start_task(self._ask(), "the last commit of a run")

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    async def _last_seq(self) -> int | None:
        if self._reading is None:
            self._stop_timer()  # otherwise it may ask a second time meanwhile
            return await self._ask()
        return await self._reading

    async def _ask(self) -> int | None:
        """None if the broker does not answer. Then the caller reads the run, and gets the error."""
        try:
            return await self._store.runs.last_seq(self._run_id, at_leader=self._store.has_copies)
        except Unavailable:
            return None
