"""Results of earlier claims of a run: small ones are in its log, large ones in the object store.

A large result is stored before the log refers to it. If it is missing later, or is not what was recorded, its
task is executed again.
"""

from __future__ import annotations

import logging

import msgspec

from pyoco_server.errors import NotFound
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import OutputKept
from pyoco_server.store.runs.results import Recorded, ResultDamaged
from pyoco_server.store.store import Store

log = logging.getLogger(__name__)

NOTHING_RECORDED = b"{}"


async def recorded_results(store: Store, run: Run) -> bytes:
    """The results of earlier claims, as JSON: `{task: [result, types]}`."""
    if not run.tasks:
        return NOTHING_RECORDED
    found: dict[str, tuple[object, object]] = {}
    for name, record in run.tasks.items():
        if record.kept is OutputKept.STORED:
            found[name] = (record.output, record.types)
        elif record.kept is OutputKept.REFERENCED:
            data = await _object(store, Recorded(run.run_id, name, record.output))
            if data is not None:
                found[name] = (msgspec.Raw(data), record.types)
    return msgspec.json.encode(found)


async def _object(store: Store, recorded: Recorded) -> bytes | None:
    try:
        return await store.results.get(recorded)
    except (NotFound, ResultDamaged) as error:
        fields = {"run_id": recorded.run_id, "task": recorded.task, "error": error.message}
        log.warning("a stored result cannot be used; its task is executed again", extra=fields)
        return None
