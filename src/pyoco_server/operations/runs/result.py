"""The result of a run: the output of its last task, or of its last tasks by name, at any size."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import msgspec

from pyoco_server.errors import Conflict, NotFound
from pyoco_server.lifecycle.retry import results
from pyoco_server.lifecycle.run import Run, TaskRecord
from pyoco_server.lifecycle.status import OutputKept, RunStatus
from pyoco_server.operations.live.run_views import RunViews, wait_for_end
from pyoco_server.store.runs.results import Recorded, reference_of
from pyoco_server.store.store import Store

_NOT_KEPT = {
    OutputKept.TOO_LARGE: "it was too large to be kept (PYOCO_RESULT_MAX_BYTES)",
    OutputKept.UNSERIALISABLE: "it cannot be written as JSON",
}


# Results up to this size are read once and kept. Larger ones are read twice: to check them, and to send them.
IN_MEMORY_BYTES_MAX = 8 * 1024 * 1024


async def result(
    store: Store, views: RunViews, run_id: str, *, tenant_id: str | None, wait_sec: float
) -> AsyncIterator[bytes]:
    """JSON in pieces. Conflict if the run has not completed (in time), NotFound if the result was not kept.

    ResultDamaged, before the first piece, if a stored object differs from its record.
    """
    stored = await wait_for_end(views, run_id, timeout_sec=wait_sec, tenant_id=tenant_id)
    if stored.run.ended is not RunStatus.COMPLETED:
        raise _no_result(stored.run)
    found = results(stored.run)
    return _pieces(store, run_id, found, await _check_stored(store, run_id, found))


async def whole_result(store: Store, run: Run) -> bytes:
    """The same in one piece, for a completed run with all its tasks. NotFound if it was not kept."""
    found = results(run)
    known = await _check_stored(store, run.run_id, found)
    return b"".join([piece async for piece in _pieces(store, run.run_id, found, known)])


def _no_result(run: Run) -> Conflict:
    """The status and the error of the run: in the message, and in `details` for programs."""
    status = run.status.value
    why = {RunStatus.FAILED: f": {run.error}", RunStatus.CANCELLED: ""}.get(run.status, " still")
    message = f"Run {run.run_id} has no result, because it is {status}{why}."
    return Conflict(message, details={"run_id": run.run_id, "status": status, "error": run.error})


async def _check_stored(store: Store, run_id: str, found: Mapping[str, TaskRecord]) -> dict[str, bytes]:
    """Check all objects before the first byte is sent: later an error cannot be reported any more.

    Returns the small ones by task.
    """
    known: dict[str, bytes] = {}
    room = IN_MEMORY_BYTES_MAX
    for name, record in found.items():
        if record.kept in _NOT_KEPT:
            raise NotFound(f"The result of task {name} is not there: {_NOT_KEPT[record.kept]}.", err_id="")
        if record.kept is not OutputKept.REFERENCED:
            continue
        reference = reference_of(record.output)
        recorded = Recorded(run_id, name, record.output)
        if reference is not None and reference.bytes <= room:
            known[name] = await store.results.get(recorded)
            room -= len(known[name])
        else:
            await store.results.check(recorded)
    return known


async def _pieces(
    store: Store, run_id: str, found: Mapping[str, TaskRecord], known: Mapping[str, bytes]
) -> AsyncIterator[bytes]:
    if not found:
        yield b"null"
        return
    is_alone = len(found) == 1
    for place, (name, record) in enumerate(found.items()):
        if not is_alone:
            yield (b"{" if place == 0 else b",") + msgspec.json.encode(name) + b":"
        if name in known:
            yield known[name]
        elif record.kept is OutputKept.REFERENCED:
            async for piece in store.results.stream(Recorded(run_id, name, record.output)):
                yield piece
        else:
            yield msgspec.json.encode(record.output)
    if not is_alone:
        yield b"}"
