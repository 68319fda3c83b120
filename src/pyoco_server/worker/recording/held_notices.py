"""Notices of a run that has printed nothing so far. They are held, because most of them need not be written.

If the run ends before anything else is written, its end says that no line of the log is stored, and readers
make the lines from the events (`operations.logs.unwritten`). Otherwise the held notices are written before
what comes after them. Only the first claim of a run holds notices: a later one adds to what is stored.
"""

from __future__ import annotations

from pyoco_server.lifecycle import events as e
from pyoco_server.lifecycle.commands import (
    CompleteRun,
    ConfirmCancelled,
    FailRun,
    FailTask,
    ParkRun,
    PutTaskWaiting,
    ReportLoss,
    StartTask,
)
from pyoco_server.lifecycle.run import Claim
from pyoco_server.lifecycle.worker_driven import event_of
from pyoco_server.operations.logs.notice_lines import lines_of
from pyoco_server.store.logs.writer import LogLine
from pyoco_server.worker.recording.listener import TaskCommand

# What is noted: the claim, what its tasks did, and its end.
Noted = Claim | TaskCommand | CompleteRun | FailRun | ParkRun | ConfirmCancelled | ReportLoss

# Reading an unwritten log means reading the events of the run: that stays cheap.
HELD_MAX = 500
HELD_BYTES_MAX = 256 * 1024
# A wait may be ended by other processes, whose commits have no notices.
_NEVER_HELD = frozenset({PutTaskWaiting, ParkRun, ConfirmCancelled, ReportLoss})


class HeldNotices:
    """In the order in which they were noted, which is that of the events."""

    def __init__(self, lines_max: int) -> None:
        self._lines_max = min(HELD_MAX, lines_max)
        self._noted: list[tuple[Noted, float]] = []
        self._lines = 1  # the end has one
        self._bytes = 0
        # Lines that came while the end was being committed.
        self.later: list[LogLine] = []
        self.is_ending = False

    def hold(self, noted: Noted, at: float, size: int) -> bool:
        """False: it cannot be held, so everything has to be written. `size`: of its values, in bytes."""
        if type(noted) in _NEVER_HELD:
            return False
        self._lines += 2 + (noted.traceback or "").count("\n") if isinstance(noted, FailTask) else 1
        self._bytes += size
        if self._lines > self._lines_max or self._bytes > HELD_BYTES_MAX:
            return False
        self._noted.append((noted, at))
        return True

    def written(self) -> list[LogLine]:
        """As lines between those that the run prints."""
        return [line for noted, at in self._noted for line in notice_lines(noted, at)]

    def unwritten(self, ending: CompleteRun | FailRun, ended_at: float) -> list[LogLine]:
        """The same lines that a reader makes from the events."""
        noted = [*self._noted, (ending, ended_at)]
        return [line for one, at in noted for line in lines_of(_event_of(one, at))]


def notice_lines(noted: Noted, at: float) -> list[LogLine]:
    """`at`: when it was noted. A task may have printed lines with later instants than that of its end, and
    lines with earlier instants than this one before its start was noted.
    """
    lines = lines_of(_event_of(noted, at))
    return lines if isinstance(noted, StartTask | Claim) else [line._replace(at=at) for line in lines]


def _event_of(noted: Noted, at: float) -> e.Event:
    """The event that it becomes when it is committed, as far as its notices show it."""
    match noted:
        case Claim():
            return e.RunClaimed(
                at=noted.claimed_at,
                worker_id=noted.worker_id,
                instance_id=noted.instance_id,
                fence=noted.fence,
            )
        case ConfirmCancelled():
            return e.RunCancelled(at=at)
        case ReportLoss():
            return e.RunLost(at=at, fence=noted.fence, cause=noted.cause, detail=noted.detail)
        case _:
            return event_of(noted, at, None)
