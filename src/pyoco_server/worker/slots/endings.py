"""What is committed for a run that has left its slot. Owns whether it counts as a crash, and as short."""

from __future__ import annotations

import logging

from pyoco_server.engine import OutcomeStatus
from pyoco_server.lifecycle.commands import FailRun, ReportLoss
from pyoco_server.lifecycle.status import LossCause
from pyoco_server.worker.attempt.claim import Claimed
from pyoco_server.worker.endings import Ending, ending_of
from pyoco_server.worker.recording.recorder import Recorder
from pyoco_server.worker.short_flows import CodeTimes, FlowKey, ShortFlows
from pyoco_server.worker.slots import messages as m
from pyoco_server.worker.slots.slot import Slot
from pyoco_server.worker.slots.slot_run import LeftSlot, SlotRun

log = logging.getLogger(__name__)

NOT_BEGUN = "it had not begun"


async def ending_in(
    slot: Slot,
    left: m.EndedMessage | LeftSlot | FailRun,
    claimed: Claimed,
    recorder: Recorder,
    *,
    is_stopping: bool,
) -> Ending:
    match left:
        case FailRun():
            return left
        case m.EndedMessage(status=OutcomeStatus.ABANDONED):
            # Its listener stopped it. If this worker still holds the run, another slot continues it.
            return recorder.loss(LossCause.HANDED_BACK, left.error or "")
        case m.EndedMessage():
            recorder.cause = left.cause
            status = OutcomeStatus(left.status)
            return ending_of(status, claimed.fence, left.reason, left.error, left.task, left.waiting)
        case LeftSlot.UNBEGUN:
            return recorder.loss(LossCause.HANDED_BACK, NOT_BEGUN)
        case LeftSlot.MOVED:
            return recorder.loss(LossCause.HANDED_BACK, "another run in its process does not return")
        case LeftSlot.DIED_BESIDE:
            how = f"{await slot.how_it_ended()}, in the code of another run"
            return _loss(LossCause.HANDED_BACK, claimed, recorder, how)
        case LeftSlot.DIED:
            cause = LossCause.HANDED_BACK if is_stopping else LossCause.SLOT_CRASHED
            return _loss(cause, claimed, recorder, await slot.how_it_ended())


def note_times(flows: ShortFlows, key: FlowKey, ended: m.EndedMessage, run: SlotRun) -> None:
    """The run has ended: whether others of its flow may share a slot."""
    may_interleave = ended.may_interleave and not run.has_written_past_python
    if may_interleave and run.can_continue_elsewhere:
        flows.note(key, CodeTimes(ended.code_sec, ended.longest_sec))
    else:
        flows.forget(key)


def _loss(cause: LossCause, claimed: Claimed, recorder: Recorder, how: str) -> ReportLoss:
    fields = {"run_id": claimed.stored.run.run_id, "reason": how, "cause": cause.value}
    log.warning("slot died", extra=fields)
    return recorder.loss(cause, how)
