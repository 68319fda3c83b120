"""A message that has nearly used up its deliveries is replaced by a new job of the same run.

The broker delivers a message at most MaxDeliver times and keeps it afterwards. Deliveries that failed because
of the broker must not fail the run: only losses of workers count, and those are in its log.
"""

from __future__ import annotations

from pyoco_server.errors import Unavailable
from pyoco_server.lifecycle.commands import RequeueRun
from pyoco_server.lifecycle.decide import Reason
from pyoco_server.operations.runs.apply import apply
from pyoco_server.store.queue.job_puller import Delivery
from pyoco_server.store.store import Store


async def give_back(store: Store, delivery: Delivery, run_id: str | None, delay_sec: float) -> None:
    """NAK the delivery, or ACK it if a new job has replaced it."""
    if await _is_replaced(store, delivery, run_id):
        delivery.ack()
    else:
        delivery.nak(delay_sec)


async def _is_replaced(store: Store, delivery: Delivery, run_id: str | None) -> bool:
    """True: a new job was published, or the run needs none."""
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
    # A claimed run: its loss would publish a new job. An ended run or another number: nothing to do.
    return applied.refused is None or applied.refused.reason is not Reason.UNKNOWN
