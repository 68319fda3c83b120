"""A message that has nearly used up its deliveries is replaced by a fresh job of the same run.

The broker stops delivering a message after MaxDeliver times and keeps it for ever. Broker trouble and
impatience are no fault of the run: only losses of workers count against it, and those are in its log.
"""

from __future__ import annotations

from pyoco_server.errors import Unavailable
from pyoco_server.lifecycle.commands import RequeueRun
from pyoco_server.lifecycle.decide import Reason
from pyoco_server.operations.runs.apply import apply
from pyoco_server.store.queue.job_puller import Delivery
from pyoco_server.store.store import Store


async def has_no_duty_left(store: Store, delivery: Delivery, run_id: str | None) -> bool:
    """True: a fresh job was published, or the run needs none; the old message may be acknowledged."""
    if delivery.num_delivered < store.config.consumer_max_deliver - 1 or run_id is None:
        return False
    try:
        stored = await store.runs.load(run_id, at_leader=True)
        if stored is None:
            return False
        job_no = delivery.job_no or stored.run.job_no
        applied = await apply(store, run_id, RequeueRun(job_no=job_no, reason="its job was worn out"))
    except Unavailable:
        return False
    # Claimed: a loss would publish a job of its own. Over, or another number: nothing to be done.
    return applied.refused is None or applied.refused.reason is not Reason.UNKNOWN
