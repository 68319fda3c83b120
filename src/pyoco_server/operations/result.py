"""What a run has come to: the result of its last task, or of its last tasks by name, whole at any size."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec

from pyoco_server.errors import Conflict, NotFound
from pyoco_server.lifecycle.retry import results
from pyoco_server.lifecycle.run import Run, TaskRecord
from pyoco_server.lifecycle.status import OutputKept, RunStatus
from pyoco_server.operations.run_views import RunViews
from pyoco_server.operations.watch import wait_for_end
from pyoco_server.store.store import Store

_NOT_KEPT = {
    OutputKept.TOO_LARGE: "it was too large to be kept (PYOCO_RESULT_MAX_BYTES)",
    OutputKept.UNSERIALISABLE: "it cannot be written as JSON",
}


async def result(
    store: Store, views: RunViews, run_id: str, *, tenant_id: str | None, wait_sec: float
) -> AsyncIterator[bytes]:
    """JSON, piece by piece. Conflict if the run has not completed (in time), NotFound if nothing was kept."""
    stored = await wait_for_end(views, run_id, timeout_sec=wait_sec, tenant_id=tenant_id)
    if stored.run.ended is not RunStatus.COMPLETED:
        raise _no_result(stored.run)
    found = results(stored.run)
    for name, record in found.items():
        await _check(store, name, record)
    return _pieces(store, found)


async def whole_result(store: Store, run: Run) -> bytes:
    """The same as JSON in one piece, of a run that completed and is whole. NotFound if nothing was kept."""
    found = results(run)
    for name, record in found.items():
        await _check(store, name, record)
    return b"".join([piece async for piece in _pieces(store, found)])


def _no_result(run: Run) -> Conflict:
    """What there is instead, in words for people and in members for programs."""
    status = run.status.value
    why = {RunStatus.FAILED: f": {run.error}", RunStatus.CANCELLED: ""}.get(run.status, " still")
    message = f"Run {run.run_id} has no result, because it is {status}{why}."
    return Conflict(message, details={"run_id": run.run_id, "status": status, "error": run.error})


async def _check(store: Store, name: str, record: TaskRecord) -> None:
    """Before the first byte: after it, all we could do is hang up."""
    if record.kept in _NOT_KEPT:
        raise NotFound(f"The result of task {name} is not there: {_NOT_KEPT[record.kept]}.", err_id="")
    if record.kept is OutputKept.REFERENCED and await store.results.info(_object(record)) is None:
        raise NotFound(f"The result of task {name} is not there any more.", err_id="")


async def _pieces(store: Store, found: Mapping[str, TaskRecord]) -> AsyncIterator[bytes]:
    if not found:
        yield b"null"
        return
    if len(found) == 1:
        async for piece in _output(store, *found.values()):
            yield piece
        return
    for place, (name, record) in enumerate(found.items()):
        yield (b"{" if place == 0 else b",") + msgspec.json.encode(name) + b":"
        async for piece in _output(store, record):
            yield piece
    yield b"}"


async def _output(store: Store, record: TaskRecord) -> AsyncIterator[bytes]:
    if record.kept is not OutputKept.REFERENCED:
        yield msgspec.json.encode(record.output)
        return
    async for piece in store.results.stream(_object(record)):
        yield piece


def _object(record: TaskRecord) -> str:
    reference: Any = record.output
    return str(reference["object"])
