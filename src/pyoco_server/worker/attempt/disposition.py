"""Turn an attempt's outcome into the reply to the queue. Decides; does not send.

ACK   the job is done: remove it                    NAK   deliver it again later, to any worker
TERM  never again
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

NAK_TROUBLE_SEC = 2.0
NAK_CLAIMED_SEC = 2.0
NAK_TOO_EARLY_SEC = 1.0
NAK_LETTER_SEC = 30.0
TOO_EARLY_DELIVERIES_MAX = 3


class AttemptOutcome(StrEnum):
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"
    FLOW_NOT_FOUND = "flow_not_found"
    INVALID_JOB = "invalid_job"
    FINISHED_BEFORE = "finished_before"
    OTHER_JOB = "other_job"
    PARKED = "parked"
    CLAIMED = "claimed"
    TOO_EARLY = "too_early"
    NEVER_BEGAN = "never_began"
    TAKEN_OVER = "taken_over"
    HANDED_BACK = "handed_back"
    BROKER_TROUBLE = "broker_trouble"


class Action(StrEnum):
    ACK = "ack"
    NAK = "nak"
    TERM = "term"
    NOTHING = "nothing"


class Disposition(NamedTuple):
    action: Action
    delay_sec: float = 0.0
    letter: str | None = None


_TABLE = {
    AttemptOutcome.COMPLETED: Disposition(Action.ACK),
    AttemptOutcome.CANCELLED: Disposition(Action.ACK),
    AttemptOutcome.FAILED: Disposition(Action.ACK, letter="execution_error"),
    AttemptOutcome.FLOW_NOT_FOUND: Disposition(Action.ACK, letter="flow_not_found"),
    AttemptOutcome.INVALID_JOB: Disposition(Action.TERM, letter="invalid_job"),
    AttemptOutcome.FINISHED_BEFORE: Disposition(Action.ACK),
    AttemptOutcome.OTHER_JOB: Disposition(Action.ACK),
    AttemptOutcome.PARKED: Disposition(Action.ACK),
    AttemptOutcome.CLAIMED: Disposition(Action.NAK, NAK_CLAIMED_SEC),
    AttemptOutcome.TOO_EARLY: Disposition(Action.NAK, NAK_TOO_EARLY_SEC),
    # Its run is not in the log, which may have been lost: the letter contains the whole job.
    AttemptOutcome.NEVER_BEGAN: Disposition(Action.ACK, letter="never_began"),
    # The delivery may belong to another worker by now: an ACK would take it away from that worker.
    AttemptOutcome.TAKEN_OVER: Disposition(Action.NOTHING),
    # The commit that handed it back has published a new job; this one is no longer needed.
    AttemptOutcome.HANDED_BACK: Disposition(Action.ACK),
    AttemptOutcome.BROKER_TROUBLE: Disposition(Action.NAK, NAK_TROUBLE_SEC),
}


def disposition(outcome: AttemptOutcome) -> Disposition:
    return _TABLE[outcome]
