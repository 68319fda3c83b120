"""Results too large for a run's log: each an object of its own, created once and read as it was recorded.

The name of an object has the run and the fence under which it was made, so that a worker that was taken over
writes beside its successor and never over it. The log refers to it with its size and SHA-256, and what does
not match them is an error to every reader. What a run has here is found by the run, and removed with it.

A reference without a digest is of an earlier version: its object has a name without a fence.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterator
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from pyoco_server.errors import Internal, NotFound
from pyoco_server.jetstream.api import JetStream
from pyoco_server.jetstream.grouped_objects import GroupedObjects
from pyoco_server.jetstream.object_info import ObjectInfo
from pyoco_server.jetstream.objects import ObjectDamaged, Objects
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import OutputKept

# Results that a run takes over from another one were made by none of its own claims.
TAKEN_OVER = 0


class ResultReference(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the log has of a large result."""

    object: str
    bytes: int
    sha256: str | None = None


class Recorded(NamedTuple):
    """A large result as the log of a run has it."""

    run_id: str
    task: str
    reference: Any  # as it was read: of our making, or not


class ResultDamaged(Internal):
    """What is stored is not what was recorded."""

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
        self.earlier = Objects(jetstream, bucket)  # those without a fence in their names

    async def put(self, run_id: str, fence: int, task: str, attempt: int, data: bytes) -> ResultReference:
        """Callable again after an Unavailable: it is then found, or made."""
        digest = sha256(data).hexdigest()
        name = name_of(run_id, fence, task, attempt)
        await self.objects.create(name, data, digest)
        return ResultReference(name, len(data), digest)

    async def copy(self, recorded: Recorded, run_id: str, attempt: int) -> ResultReference:
        """For another run. Raises what `get` raises, and then there is no copy."""
        info, _ = await self._find(recorded)
        name = name_of(run_id, TAKEN_OVER, recorded.task, attempt)
        digest = info.sha256_hex or ""
        await self.objects.create(name, self.stream(recorded), digest)
        return ResultReference(name, info.size, digest)

    async def get(self, recorded: Recorded) -> bytes:
        """Raises ResultMissing, or ResultDamaged."""
        return b"".join([piece async for piece in self.stream(recorded)])

    async def check(self, recorded: Recorded) -> None:
        """Read through, and raise what `get` would."""
        async for _ in self.stream(recorded):
            pass

    async def stream(self, recorded: Recorded) -> AsyncIterator[bytes]:
        """Piece by piece. Nothing of an object with another digest; one that is damaged raises in the end."""
        info, objects = await self._find(recorded)
        try:
            async for piece in objects.pieces(info):
                yield piece
        except ObjectDamaged as damaged:
            raise ResultDamaged(recorded, damaged.message.rstrip(".")) from damaged

    async def remove_all(self, run_id: str, earlier: Collection[str] = ()) -> None:
        """`earlier`: objects of an earlier version, which are found by their names only (`earlier_in`)."""
        await self.objects.remove_group(run_id)
        for name in earlier:
            await self.earlier.remove(name)

    async def remove_unreferenced(
        self, run_id: str, referenced: Collection[str], *, fence: int | None = None
    ) -> int:
        """Of a run that is over, or of a claim that is (`fence`). How many, unfinished ones included."""
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
    """Those of an earlier version."""
    return {reference.object for reference in _references(run) if reference.sha256 is None}


def _references(run: Run) -> Iterator[ResultReference]:
    for record in run.tasks.values():
        reference = reference_of(record.output) if record.kept is OutputKept.REFERENCED else None
        if reference is not None:
            yield reference


def reference_of(output: Any) -> ResultReference | None:
    try:
        if isinstance(output, msgspec.Raw):
            return msgspec.json.decode(output, type=ResultReference)
        return msgspec.convert(output, ResultReference)
    except msgspec.MsgspecError:
        return None
