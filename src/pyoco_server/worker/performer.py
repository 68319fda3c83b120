"""Who executes a claimed run: threads of this process, or a slot. And what may be done to it meanwhile."""

from __future__ import annotations

from typing import Any, Protocol

from pyoco_server.lifecycle.commands import CompleteRun, FailRun, ReportLoss
from pyoco_server.worker.claim import Claimed
from pyoco_server.worker.recorder import Recorder
from pyoco_server.worker.under_way import UnderWay

# What is committed when it is over: an end of the run, or of our hold on it.
Ending = CompleteRun | FailRun | ReportLoss


class Performer(Protocol):
    async def perform(self, claimed: Claimed, recorder: Recorder, under_way: UnderWay) -> Ending: ...

    async def start(self) -> None: ...

    async def hand_back(self) -> None:
        """Stop what runs; where that is possible, `perform` then gives the run back."""

    async def close(self) -> None: ...


def metadata_of(claimed: Claimed) -> dict[str, Any]:
    """What a flow finds in `ctx.run_context.metadata`."""
    submission = claimed.submission
    return {
        "fence": claimed.fence,
        "tag": submission.tag,
        "tags": submission.tags,
        "tenant_id": submission.tenant_id,
        "api_key_id": submission.api_key_id,
        "correlation_id": submission.correlation_id,
    }
