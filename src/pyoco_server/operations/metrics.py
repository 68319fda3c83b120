"""How things stand, in numbers, for whoever watches from outside (REQ-0014).

A handful of requests to the broker, side by side, and sums that the read model keeps: what it costs depends
on the number of tags and living workers, not on that of runs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyoco_server.errors import Unavailable
from pyoco_server.lifecycle.status import RunStatus
from pyoco_server.operations import workers
from pyoco_server.store.queue import TagQueue
from pyoco_server.store.read_model import ReadModel
from pyoco_server.store.store import Store

# A gateway that is catching up answers all the same: how far behind it is, is one of the numbers.
CATCH_UP_SEC = 1.0
TAGS_MAX = 200


@dataclass(frozen=True, slots=True)
class Standing:
    runs: Mapping[str, int]
    workers_alive: int
    workers_draining: int
    slots: int
    slots_free: int
    dead_letters: int
    queues: Mapping[str, TagQueue]
    waiting_sec: Mapping[str, float]
    lag: int
    feed_restarts: int
    reconnects: int


async def standing(store: Store, read_model: ReadModel) -> Standing:
    """Raises Unavailable when the broker is away."""
    caught_up, alive, dead_letters, queues = await asyncio.gather(
        _caught_up(store, read_model),
        workers.alive(store),
        store.dead_letters.count(),
        store.queue.depths(TAGS_MAX),
    )
    counts, now = read_model.counts(), time.time()
    oldest = sorted(read_model.oldest_owed().items(), key=lambda owed: owed[1])[:TAGS_MAX]
    return Standing(
        runs={status.value: counts.get(status.value, 0) for status in RunStatus},
        workers_alive=len(alive),
        workers_draining=sum(entry["draining"] for entry in alive),
        slots=_sum(alive, "slots"),
        slots_free=_sum([entry for entry in alive if not entry["draining"]], "free_slots"),
        dead_letters=dead_letters,
        queues=queues,
        waiting_sec={tag: max(0.0, now - since) for tag, since in oldest},
        lag=0 if caught_up else read_model.lag,
        feed_restarts=max(0, read_model.feed.restarts - 1),
        reconnects=store.reconnects,
    )


async def _caught_up(store: Store, read_model: ReadModel) -> bool:
    try:
        await read_model.caught_up(CATCH_UP_SEC)
    except Unavailable:
        if store.why_not_ready is not None:
            raise
        return False
    return True


def _sum(entries: list[dict[str, Any]], member: str) -> int:
    return sum(entry[member] for entry in entries if isinstance(entry.get(member), int))
