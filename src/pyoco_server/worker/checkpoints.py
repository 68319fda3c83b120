"""Results that a run has already: small ones are in its log, large ones in the object store.

Stored before the log says so; what is missing there later is no checkpoint, and its task is executed again.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import msgspec

from pyoco_server.errors import Unavailable
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import OutputKept, TaskStatus
from pyoco_server.store.errors import BrokerRefused
from pyoco_server.store.store import Store
from pyoco_server.worker.values import Result

log = logging.getLogger(__name__)

TRY_AGAIN_SEC = 0.5
NOTHING_RECORDED = b"{}"


async def put_result(store: Store, run_id: str, task: str, attempt: int, result: Result) -> Result:
    """Into the object store, for as long as the broker is away; the log then has where it is."""
    assert result.json is not None
    name = f"{run_id}/{task}/{attempt}"
    while True:
        try:
            await store.results.put(name, result.json)
        except BrokerRefused as refused:
            log.error("a result cannot be stored", extra={"run_id": run_id, "error": refused.message})
            return Result(None, OutputKept.TOO_LARGE)
        except Unavailable:
            await asyncio.sleep(TRY_AGAIN_SEC)
        else:
            reference = {"object": name, "bytes": len(result.json)}
            return Result(msgspec.json.encode(reference), result.kept, result.types)


async def recorded_results(store: Store, run: Run) -> bytes:
    """What earlier claims have finished, as JSON: `{task: [result, types]}`."""
    if not run.tasks:
        return NOTHING_RECORDED
    found: dict[str, tuple[Any, Any]] = {}
    for name, record in run.tasks.items():
        if record.kept is OutputKept.STORED:
            found[name] = (record.output, record.types)
        elif record.kept is OutputKept.REFERENCED:
            data = await _object(store, run.run_id, record.output)
            if data is not None:
                found[name] = (msgspec.Raw(data), record.types)
    return msgspec.json.encode(found)


def recorded_failures(run: Run) -> dict[str, str]:
    return {
        name: record.error or "" for name, record in run.tasks.items() if record.state is TaskStatus.FAILED
    }


def awaited(run: Run) -> tuple[str, ...]:
    """The waits that the run has come to, answered or not."""
    return tuple(name for name, record in run.tasks.items() if record.waited_since is not None)


async def _object(store: Store, run_id: str, reference: Any) -> bytes | None:
    try:
        return await store.results.get(str(reference["object"]))
    except Unavailable:
        raise
    except Exception as error:  # gone, damaged, or a reference of another making
        log.warning("a stored result is missing", extra={"run_id": run_id, "error": str(error)})
        return None
