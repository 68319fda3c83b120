"""Objects that belong to groups, created once and never replaced, and removed by group without a trace.

A name is `<group>/<part>/<rest>`; group and part are separate tokens in the subjects of the meta message and
of the chunks. So the objects of a group, or of a part of it (`<group>.<part>`), are found and removed by one
subject filter, together with the chunks of unfinished uploads. Other nats clients can list and read these
objects; they cannot find one by its name.
"""

from __future__ import annotations

from collections.abc import Collection

from pyoco_server.jetstream.object_info import ObjectInfo, encode_name
from pyoco_server.jetstream.objects import Objects, by_name


class GroupedObjects(Objects):
    async def remove_group(self, group: str) -> None:
        await self._jetstream.purge(self._stream, f"{self._metas}{group}.>")
        await self._jetstream.purge(self._stream, f"{self._chunks}{group}.>")

    async def in_group(self, group: str) -> list[ObjectInfo]:
        """As the leader has them: on a copy that lags, a meta message may be missing."""
        found = by_name(await self._jetstream.after_at_leader(self._stream, f"{self._metas}{group}.>", 0))
        return [info for info in found.values() if not info.deleted]

    async def remove_others(self, group: str, kept: Collection[str]) -> int:
        """Remove objects of the group that are not `kept`, and chunks of no object. Returns how many."""
        infos = await self.in_group(group)
        others = [info.name for info in infos if info.name not in kept]
        for name in others:
            await self.remove(name)
        known = {info.nuid for info in infos}
        unfinished = [nuid for nuid in await self._nuids(group) if nuid not in known]
        for nuid in unfinished:
            await self._jetstream.purge(self._stream, self._chunks + nuid)
        return len(others) + len(unfinished)

    async def _nuids(self, group: str) -> list[str]:
        """Of all chunks that are there."""
        subjects = await self._jetstream.subjects(self._stream, f"{self._chunks}{group}.>")
        return [subject.removeprefix(self._chunks) for subject in subjects]

    def _meta(self, name: str) -> str:
        group, part, rest = name.split("/", 2)
        return f"{self._metas}{group}.{part}.{encode_name(rest)}"

    def _new_nuid(self, name: str) -> str:
        group, part, _ = name.split("/", 2)
        return f"{group}.{part}.{super()._new_nuid(name)}"
