"""Lines that the server adds to a run's log: a cancel before a worker had the run, a worker that was lost.

The same facts are in the events, so nothing waits for a line that cannot be written. A run that is cancelled
while no worker has it ends before its line is written. Its log counts as complete only when the line is
there, or when `NOTICE_GRACE_SEC` have passed.
"""

from __future__ import annotations

import asyncio
import logging

from pyoco_server import clock
from pyoco_server.errors import Unavailable
from pyoco_server.ids import new_token
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import RunStatus
from pyoco_server.store.logs.reader import Span
from pyoco_server.store.logs.writer import LogLine, LogMoved, decode_lines
from pyoco_server.store.store import Store
from pyoco_server.supervision import start_task

log = logging.getLogger(__name__)

TRIES_MAX = 3
# A request waits this long for its line, which may be written later.
NOTE_WAIT_SEC = 0.25
NOTICE_GRACE_SEC = 3.0
CANCELLED_UNCLAIMED = "cancel requested; no worker has the run"
EXPIRED = "expired; no worker has started the run"

_under_way: set[asyncio.Task[None]] = set()


async def note(store: Store, run_id: str, text: str, *, fence: int = 0) -> None:
    """`fence`: a worker with a lower one finds this line and stops writing."""
    line = LogLine(clock.now(), "system", text, level="WARNING")
    try:
        end = await store.logs.end(run_id)
        for _ in range(TRIES_MAX):
            try:
                await store.logs.append(
                    run_id, end, [line], fence=max(end.fence, fence), chunk_id=new_token()
                )
                return
            except LogMoved as moved:
                end = moved.now
    except Unavailable as error:
        store.logs.silent.set()
        log.warning("a line of a run is missing", extra={"run_id": run_id, "error": error.message})


async def note_soon(store: Store, run_id: str, text: str, *, fence: int = 0) -> None:
    """Write the line before this returns, if the logs can be written.

    If they cannot, neither this line nor those of other runs are waited for, until a write succeeds.
    """
    noting = start_task(note(store, run_id, text, fence=fence), "a line about a run")
    _under_way.add(noting)
    noting.add_done_callback(_under_way.discard)
    await asyncio.wait([noting], timeout=0.0 if store.logs.silent.is_set() else NOTE_WAIT_SEC)


async def awaits_notice(store: Store, run: Run) -> bool:
    """Whether the line about its cancel may still come. If not, the log is complete after this call."""
    if not _ended_without_worker(run):
        return False
    return not _is_notice(await store.log_reader.span(run.run_id, at_leader=True))


def may_be_noted(run: Run, span: Span | None) -> bool:
    """The same for a reader that has read the end of the log at the leader."""
    return _ended_without_worker(run) and not _is_notice(span)


def _ended_without_worker(run: Run) -> bool:
    """By its cancel, in one commit, within the last seconds."""
    at = run.ended_at
    return (
        run.ended is RunStatus.CANCELLED
        and run.cancel is not None
        and at is not None
        and run.cancel.at == at
        and abs(clock.now() - at) < NOTICE_GRACE_SEC
    )


def _is_notice(span: Span | None) -> bool:
    return span is not None and any(
        entry.stream == "system" and entry.message in (CANCELLED_UNCLAIMED, EXPIRED)
        for entry in decode_lines(span.last.data)
    )
