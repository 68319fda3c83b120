"""Results that are too large for the log of a run: each is an object that is created once.

The name of an object contains the run and the fence under which it was created, so that a worker that has
lost its claim never overwrites an object of its successor. The log refers to the object with its size and
SHA-256; readers refuse an object that does not match. The objects of a run are removed with the run.

A reference without a digest is of an earlier version: the name of its object has no fence.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterator
from hashlib import sha256
from typing import NamedTuple

import msgspec

from pyoco_server.errors import Internal, NotFound
from pyoco_server.jetstream.api import JetStream
from pyoco_server.jetstream.grouped_objects import GroupedObjects
from pyoco_server.jetstream.object_info import ObjectInfo
from pyoco_server.jetstream.objects import ObjectDamaged, Objects
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import OutputKept

# The fence of results that were copied from another run: no claim of this run created them.
TAKEN_OVER = 0


class ResultReference(msgspec.Struct, frozen=True, omit_defaults=True):
    """The reference to a large result in the log."""

    object: str
    bytes: int
    sha256: str | None = None


class Recorded(NamedTuple):
    """A large result as the log of a run has it."""

    run_id: str
    task: str
    reference: object  # as it was read; another producer may have written it


class ResultDamaged(Internal):
    """The stored object does not match its reference."""

    def __init__(self, recorded: Recorded, why: str) -> None:
        super().__init__(
            f"The stored result of task {recorded.task} of run {recorded.run_id} is not what was recorded: "
            f"{why}. Retry the run from this task."
        )


class ResultMissing(NotFound):
    def __init__(self, recorded: Recorded) -> None:
        super().__init__(
            f"The result of task {recorded.task} of run {recorded.run_id} is not there any more.", err_id=""
        )


class Results:
    def __init__(self, jetstream: JetStream, bucket: str) -> None:
        self.objects = GroupedObjects(jetstream, bucket)
        self.earlier = Objects(jetstream, bucket)  # objects without a fence in their names

    async def put(self, run_id: str, fence: int, task: str, attempt: int, data: bytes) -> ResultReference:
        """Can be called again after Unavailable: an object that was stored is found."""
        digest = sha256(data).hexdigest()
        name = name_of(run_id, fence, task, attempt)
        await self.objects.create(name, data, digest)
        return ResultReference(name, len(data), digest)

    async def copy(self, recorded: Recorded, run_id: str, attempt: int) -> ResultReference:
        """Copy a result to another run. Raises the errors of `get`, and then there is no copy."""
        info, _ = await self._find(recorded)
        name = name_of(run_id, TAKEN_OVER, recorded.task, attempt)
        digest = info.sha256_hex or ""
        await self.objects.create(name, self.stream(recorded), digest)
        return ResultReference(name, info.size, digest)

    async def get(self, recorded: Recorded) -> bytes:
        """Raises ResultMissing or ResultDamaged."""
        return b"".join([piece async for piece in self.stream(recorded)])

    async def check(self, recorded: Recorded) -> None:
        """Read the whole result. Raises the errors of `get`."""
        async for _ in self.stream(recorded):
            pass

    async def stream(self, recorded: Recorded) -> AsyncIterator[bytes]:
        """The result in pieces. A wrong digest raises before the first piece, damaged data after the last."""
        info, objects = await self._find(recorded)
        try:
            async for piece in objects.pieces(info):
                yield piece
        except ObjectDamaged as damaged:
            raise ResultDamaged(recorded, damaged.message.rstrip(".")) from damaged

    async def remove_all(self, run_id: str, earlier: Collection[str] = ()) -> None:
        """`earlier`: names of objects of an earlier version, from `earlier_in`. No group contains them."""
        await self.objects.remove_group(run_id)
        for name in earlier:
            await self.earlier.remove(name)

    async def remove_unreferenced(
        self, run_id: str, referenced: Collection[str], *, fence: int | None = None
    ) -> int:
        """Of an ended run, or of an ended claim (`fence`). Returns how many, with unfinished uploads."""
        group = run_id if fence is None else f"{run_id}.{fence}"
        return await self.objects.remove_others(group, referenced)

    async def _find(self, recorded: Recorded) -> tuple[ObjectInfo, Objects]:
        reference = reference_of(recorded.reference)
        if reference is None:
            raise ResultDamaged(recorded, "its reference cannot be read")
        objects = self.earlier if reference.sha256 is None else self.objects
        info = await objects.info(reference.object)
        if info is None:
            raise ResultMissing(recorded)
        if reference.sha256 is not None and (info.sha256_hex, info.size) != (
            reference.sha256,
            reference.bytes,
        ):
            raise ResultDamaged(recorded, "its size or its digest differs")
        return info, objects


def name_of(run_id: str, fence: int, task: str, attempt: int) -> str:
    return f"{run_id}/{fence}/{attempt}/{task}"


def referenced_in(run: Run) -> set[str]:
    """Names of the objects that the run refers to."""
    return {reference.object for reference in _references(run)}


def earlier_in(run: Run) -> set[str]:
    """The names among them that are of an earlier version."""
    return {reference.object for reference in _references(run) if reference.sha256 is None}


def _references(run: Run) -> Iterator[ResultReference]:
    for record in run.tasks.values():
        reference = reference_of(record.output) if record.kept is OutputKept.REFERENCED else None
        if reference is not None:
            yield reference


def reference_of(output: object) -> ResultReference | None:
    try:
        if isinstance(output, msgspec.Raw):
            return msgspec.json.decode(output, type=ResultReference)
        return msgspec.convert(output, ResultReference)
    except msgspec.MsgspecError:
        return None
