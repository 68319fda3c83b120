"""What is committed when the engine has returned. Pure; a slot and the tests of flows use it too."""

from __future__ import annotations

from collections.abc import Sequence

from pyoco_server.engine import OutcomeStatus
from pyoco_server.lifecycle.commands import CompleteRun, FailRun, ParkRun, ReportLoss
from pyoco_server.worker.attempt.reasons import EXECUTION_ERROR

# An end of the run, or of this worker's claim.
Ending = CompleteRun | FailRun | ParkRun | ReportLoss


def ending_of(
    status: OutcomeStatus,
    fence: int,
    reason: str,
    error: str | None,
    task: str | None,
    waiting: Sequence[str] = (),
) -> Ending:
    """The command for the end of a run in the engine."""
    match status:
        case OutcomeStatus.COMPLETED:
            return CompleteRun(fence=fence)
        case OutcomeStatus.CANCELLED | OutcomeStatus.ABANDONED:
            # Stopped because of a cancel or a takeover, which then refuses this command; or by its own code.
            text = "The run was stopped from inside, without a cancel having been asked for."
            return FailRun(fence=fence, reason=EXECUTION_ERROR, error=text)
        case OutcomeStatus.PARKED:
            return ParkRun(fence=fence, waiting=list(waiting))
        case OutcomeStatus.FAILED:
            return FailRun(fence=fence, reason=reason, error=error or "the flow failed", task=task)
