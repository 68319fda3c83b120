"""Uploads large results of one run into the object store, before the log refers to them.

An upload is retried while the broker is away and this worker holds the run. When a commit was refused, or
another worker holds the run, uploads are stopped, and objects that the log does not refer to are removed.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable

import msgspec

from pyoco_server.errors import Unavailable
from pyoco_server.jetstream.errors import BrokerRefused
from pyoco_server.jetstream.objects import NotSame
from pyoco_server.lifecycle.status import OutputKept
from pyoco_server.store.runs.results import referenced_in
from pyoco_server.store.store import Store
from pyoco_server.supervision import contain, start_task
from pyoco_server.worker.recording.values import StoredResult

log = logging.getLogger(__name__)

TRY_AGAIN_SEC = 0.5
# The rest is left to housekeeping.
REMOVE_SEC_MAX = 10.0

OnPut = Callable[[StoredResult], None]


class _NotOurs(Exception):
    """Another worker holds the run."""


class Uploads:
    def __init__(self, store: Store, run_id: str, fence: int, on_lost: Callable[[], None]) -> None:
        """`on_lost`: called when another worker is found to hold the run."""
        self._store = store
        self._context = contextvars.copy_context()  # of the attempt, for log lines
        self._on_lost = on_lost
        self._run_id = run_id
        self._fence = fence
        self._in_flight: set[asyncio.Task[None]] = set()
        self._has_begun = False
        self._removing: asyncio.Task[None] | None = None
        self._is_stopped = False

    def begin(self, task: str, attempt: int, result: StoredResult, on_put: OnPut) -> None:
        if self._is_stopped:
            return
        self._has_begun = True
        upload = self._upload(task, attempt, result, on_put)
        uploading = start_task(upload, "upload of a result", context=self._context)
        self._in_flight.add(uploading)
        uploading.add_done_callback(self._in_flight.discard)

    async def wait_until_finished(self) -> None:
        """Return when no upload is in flight: all have ended or were stopped."""
        if self._in_flight:
            await asyncio.wait(self._in_flight)

    def stop(self, *, remove: bool = True) -> None:
        """`remove`: also remove objects that the log does not refer to."""
        if self._is_stopped:
            return
        self._is_stopped = True
        for uploading in self._in_flight:
            uploading.cancel()
        if remove and self._has_begun:
            self._removing = start_task(self._remove(), "removal of results", context=self._context)

    async def wait_until_stopped(self) -> None:
        """Return when results are removed, or noted for housekeeping."""
        if self._removing is not None:
            await asyncio.wait([self._removing])

    async def _upload(self, task: str, attempt: int, result: StoredResult, on_put: OnPut) -> None:
        # After a defect the success is recorded without its result: the run does not wait for it.
        put = StoredResult(None, OutputKept.TOO_LARGE)
        with contain("upload of a result", "a result was not stored", run_id=self._run_id, task=task):
            try:
                put = await self._put(task, attempt, result)
            except _NotOurs:
                self._on_lost()
                return
        on_put(put)

    async def _put(self, task: str, attempt: int, result: StoredResult) -> StoredResult:
        assert result.json is not None
        fields = {"run_id": self._run_id, "task": task}
        had_trouble = False
        while True:
            try:
                reference = await self._store.results.put(
                    self._run_id, self._fence, task, attempt, result.json
                )
                break
            except (Unavailable, NotSame) as error:
                if _is_final(error):
                    log.error("a result cannot be stored", extra=fields | {"error": error.message})
                    return StoredResult(None, OutputKept.TOO_LARGE)
                if not had_trouble:
                    log.warning("a result cannot be stored yet", extra=fields | {"error": error.message})
                had_trouble = True
            await asyncio.sleep(TRY_AGAIN_SEC)
            await self._check_ours()
        if had_trouble:
            await self._note()  # chunks of a failed upload may be left
        return StoredResult(msgspec.json.encode(reference), result.kept, result.types)

    async def _check_ours(self) -> None:
        try:
            stored = await self._store.runs.load(self._run_id, at_leader=True)
        except Unavailable:
            return
        if stored is not None and stored.run.fence < self._fence:
            return  # an old state, from before this claim: the node that answers was cut off
        claim = stored.run.claim if stored is not None else None
        if claim is None or claim.fence != self._fence:
            raise _NotOurs

    async def _remove(self) -> None:
        """Uploads in flight end first. Objects that the log refers to stay."""
        # A defect here costs storage. It must not fail the run.
        with contain("removal of results", "large results were not removed", run_id=self._run_id):
            try:
                async with asyncio.timeout(REMOVE_SEC_MAX):
                    await self._remove_unreferenced()
            except (Unavailable, TimeoutError) as error:
                fields = {"run_id": self._run_id, "error": str(error)}
                log.warning("large results of a run that is not ours are left to housekeeping", extra=fields)
                await self._note()

    async def _remove_unreferenced(self) -> None:
        await self.wait_until_finished()
        stored = await self._store.runs.load_confirmed(self._run_id, whole=True)
        referenced = referenced_in(stored.run) if stored is not None else set()
        await self._store.results.remove_unreferenced(self._run_id, referenced, fence=self._fence)

    async def _note(self) -> None:
        try:
            await self._store.leftovers.note(self._run_id)
        except Unavailable as error:
            log.warning("not noted for clearing up", extra={"run_id": self._run_id, "error": error.message})


def _is_final(error: Unavailable | NotSame) -> bool:
    """A retry has no use. False if the broker is away or elects a leader."""
    return isinstance(error, NotSame) or (isinstance(error, BrokerRefused) and not error.will_pass)
