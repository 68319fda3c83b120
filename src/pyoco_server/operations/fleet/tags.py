"""The queues by tag: how many runs wait for a worker, since when, and which workers serve the tag.

The read model has an index of runs that wait, so the cost depends on the number of tags and not on the number
of runs; a backlog is counted up to a limit. A count is of all tenants, because they share the workers. A
tenant does not see the name of a tag that no worker serves and none of its own runs wait for.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from pyoco_server import clock
from pyoco_server.lifecycle.status import RunStatus
from pyoco_server.operations.fleet.workers import Entry, alive, tags_of
from pyoco_server.read_model.run_table import Filter
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.store import Store

# A backlog is counted no further.
BACKLOG_MAX = 1_000
TAGS_MAX = 200
# Tags that are looked up before other requests have their turn.
TAGS_AT_ONCE = 50


class TagBacklog(NamedTuple):
    """`backlog`: runs that wait for a worker, up to `BACKLOG_MAX`; `oldest_since`: since when, at most."""

    tag: str
    backlog: int
    backlog_is_more: bool
    oldest_since: float | None
    workers: int
    draining: int
    slots: int
    free_slots: int


async def tag_queues(store: Store, read_model: ReadModel, tenant_id: str | None) -> list[TagBacklog]:
    """Tags with waiting runs or live workers: those that wait without a worker first, then by name."""
    await read_model.catch_up()
    queries, workers = read_model.housekeeping, await alive(store)
    oldest = queries.oldest_owed()
    served = {tag for worker in workers for tag in tags_of(worker)}
    found: list[TagBacklog] = []
    for number, tag in enumerate([*sorted(oldest.keys() - served), *sorted(served)]):
        if len(found) == TAGS_MAX:
            break
        if number % TAGS_AT_ONCE == TAGS_AT_ONCE - 1:
            await asyncio.sleep(0)
        if tag not in served and not _has_own(read_model, tenant_id, tag):
            continue
        backlog = 0
        if tag in oldest:
            backlog = queries.owed_before(tag, clock.now() + 1.0, at_most=BACKLOG_MAX + 1)
        own = [worker for worker in workers if tag in tags_of(worker)]
        found.append(_queue(tag, backlog, oldest.get(tag), own))
    found.sort(key=lambda queue: (queue.workers > 0 or queue.backlog == 0, queue.tag))
    return found


def _has_own(read_model: ReadModel, tenant_id: str | None, tag: str) -> bool:
    wanted = Filter(tenant=tenant_id, status=RunStatus.PENDING.value, tag=tag)
    return tenant_id is None or bool(read_model.runs.find(wanted, 1))


def _queue(tag: str, backlog: int, since: float | None, workers: list[Entry]) -> TagBacklog:
    taking = [worker for worker in workers if not worker["draining"]]
    return TagBacklog(
        tag=tag,
        backlog=min(backlog, BACKLOG_MAX),
        backlog_is_more=backlog > BACKLOG_MAX,
        oldest_since=since,
        workers=len(workers),
        draining=len(workers) - len(taking),
        slots=sum(_number(worker, "slots") for worker in taking),
        free_slots=sum(_number(worker, "free_slots") for worker in taking),
    )


def _number(worker: Entry, name: str) -> int:
    value = worker.get(name)
    return value if isinstance(value, int) else 0
