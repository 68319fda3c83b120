"""Current figures for monitoring (REQ-0014): of one tenant, or of the whole installation.

Takes a few concurrent requests to the broker, and sums from the read model. The cost depends on the number of
tags and live workers, not on the number of runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from pyoco_server import clock
from pyoco_server.errors import Unavailable
from pyoco_server.lifecycle.status import RunStatus
from pyoco_server.operations.fleet import workers
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.queue.jobs import TagQueue
from pyoco_server.store.store import Store

# A gateway that is still catching up answers too, and reports its lag.
CATCH_UP_SEC = 1.0
TAGS_MAX = 200

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures for a tenant: its own runs, and the workers that all tenants share."""

    runs: Mapping[str, int]
    runs_today: Mapping[str, int]
    # None if the registry of workers is unavailable.
    workers_alive: int | None
    workers_draining: int | None
    slots: int | None
    slots_free: int | None


@dataclass(frozen=True, slots=True)
class FleetFigures:
    """The figures for operators: of all tenants together."""

    figures: Figures
    dead_letters: int | None  # None if that stream is unavailable
    queues: Mapping[str, TagQueue]
    waiting_sec: Mapping[str, float]
    lag: int
    feed_restarts: int
    reconnects: int


async def figures(store: Store, read_model: ReadModel, tenant_id: str) -> Figures:
    """Of one tenant. Raises Unavailable when the broker is away."""
    _, alive = await asyncio.gather(_caught_up(store, read_model), _if_there(store, workers.alive(store)))
    return _figures(read_model, alive, tenant_id)


async def fleet_figures(store: Store, read_model: ReadModel) -> FleetFigures:
    """Of all tenants. Raises Unavailable if the broker is away; figures of one stream may be missing."""
    catch_up, alive, dead_letters, queues = await asyncio.gather(
        _caught_up(store, read_model),
        _if_there(store, workers.alive(store)),
        _if_there(store, store.dead_letters.count()),
        _if_there(store, store.queue.depths(TAGS_MAX)),
    )
    now = clock.now()
    oldest = sorted(read_model.housekeeping.oldest_owed().items(), key=lambda owed: owed[1])[:TAGS_MAX]
    return FleetFigures(
        figures=_figures(read_model, alive, None),
        dead_letters=dead_letters,
        queues=queues or {},
        waiting_sec={tag: max(0.0, now - since) for tag, since in oldest},
        lag=0 if catch_up else read_model.lag,
        feed_restarts=max(0, read_model.feed.restarts - 1),
        reconnects=store.reconnects,
    )


def _figures(read_model: ReadModel, alive: list[dict[str, object]] | None, tenant_id: str | None) -> Figures:
    counts, today = read_model.tally.of(tenant_id), read_model.days.of(tenant_id, clock.now())
    return Figures(
        runs={status.value: counts.get(status.value, 0) for status in RunStatus},
        runs_today={status.value: today.get(status.value, 0) for status in RunStatus},
        workers_alive=None if alive is None else len(alive),
        workers_draining=None if alive is None else sum(bool(entry["draining"]) for entry in alive),
        slots=None if alive is None else _sum(alive, "slots"),
        slots_free=None
        if alive is None
        else _sum([entry for entry in alive if not entry["draining"]], "free_slots"),
    )


async def _if_there(store: Store, asking: Awaitable[T]) -> T | None:
    """None if only one stream is unavailable: the other figures are shown."""
    try:
        return await asking
    except Unavailable:
        if store.why_not_ready is not None:
            raise
        return None


async def _caught_up(store: Store, read_model: ReadModel) -> bool:
    try:
        await read_model.catch_up(CATCH_UP_SEC)
    except Unavailable:
        if store.why_not_ready is not None:
            raise
        return False
    return True


def _sum(entries: list[dict[str, object]], member: str) -> int:
    return sum(value for entry in entries if isinstance(value := entry.get(member), int))
