"""Whether the feed has delivered everything that was stored before a request began.

It may lag: a client may have read or changed the run elsewhere, for example at another gateway, and must not
be shown an older state. Two proofs are accepted. The feed has delivered a commit that this process sent after
the request began: everything from before has a smaller sequence. Or the feed has delivered what was the last
message of the log at some moment after the request began (`log_end`).
"""

from __future__ import annotations

import asyncio

from pyoco_server.operations.live.log_end import EventLogEnd
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.runs.sent_commits import SendMark, SentCommits
from pyoco_server.supervision import start_task

# On a gateway with other submissions the first proof comes by itself. So the second is prepared, while the
# request waits, only if no other request waits: then it costs no time at the end.
ASK_AFTER_SEC = 0.001


class FreshnessCheck:
    """`began`: the mark of the moment at which the request began. Close it."""

    def __init__(
        self, log_end: EventLogEnd, read_model: ReadModel, sent: SentCommits, began: SendMark
    ) -> None:
        self._log_end = log_end
        self._feed = read_model.feed
        self._sent = sent
        self._mark = began
        self._asking: asyncio.Task[bool] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def prepare_soon(self) -> None:
        """Ask while the request waits, unless the first proof is likely to come."""
        self._timer = asyncio.get_running_loop().call_later(ASK_AFTER_SEC, self._prepare)

    def close(self) -> None:
        self._stop_timer()
        if self._asking is not None:
            self._asking.cancel()

    async def passes(self) -> bool:
        """If so, what the feed delivers from now on, and has delivered, is new enough."""
        before = self._sent.stored_after(self._mark)
        if before is not None and self._feed.is_verified and before <= self._feed.reached:
            return True
        self._stop_timer()  # otherwise it may ask a second time meanwhile
        is_reached = await (self._log_end.is_reached() if self._asking is None else self._asking)
        return is_reached and self._sent.is_same_connection(self._mark)

    def _prepare(self) -> None:
        if not self._sent.has_sent_after(self._mark):
            self._asking = start_task(self._log_end.is_reached(), "whether a run is the latest")

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
