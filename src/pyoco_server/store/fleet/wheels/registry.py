"""Store, list, fetch and delete wheels. Owns the rule that versions of a package only increase.

A wheel is an object named by its file name. A package belongs to the tenant that has wheels of it, and only a
version higher than all existing ones is accepted. Two concurrent uploads have two names, so a compare-and-set
on one name is not enough: the rule is checked on the list of all wheels, and the new one is published at the
sequence of that list (`Objects.put` with `admit`). If another wheel was put or deleted meanwhile, the broker
refuses and the rule is checked again; the bytes are sent once.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Conflict, NotFound, TooLarge, Unavailable
from pyoco_server.jetstream.api import JetStream
from pyoco_server.jetstream.object_info import ObjectInfo
from pyoco_server.jetstream.objects import Admit, Objects
from pyoco_server.store.fleet.wheels.content import check_content
from pyoco_server.store.fleet.wheels.history import Origin, WheelAction, WheelHistory
from pyoco_server.store.fleet.wheels.unpacked import UnpackedMax
from pyoco_server.store.fleet.wheels.wheel import (
    SHA256_HEADER,
    TAGS_HEADER,
    TENANT_HEADER,
    Wheel,
    WheelName,
    check_tags,
    for_tags,
    newest,
    wheel_of,
)

log = logging.getLogger(__name__)

VERSION_REFUSED = "ERR-PYOCO-0022"
NOT_FOUND = "ERR-PYOCO-0023"
FILE_PIECE_BYTES = 1024 * 1024


class Wheels:
    def __init__(self, jetstream: JetStream, objects: Objects, config: NatsBackendConfig) -> None:
        self._objects = objects
        self._bytes_max = config.wheel_max_bytes
        self.unpacked_max = UnpackedMax(config.wheel_unpacked_max_bytes, config.wheel_unpacked_max_files)
        self.history = WheelHistory(jetstream, config)

    @property
    def bucket(self) -> str:
        return self._objects.bucket

    async def list(self) -> list[Wheel]:
        """All wheels, by name. On a cluster the list may lag for a moment."""
        return [wheel for info in await self._objects.list() if (wheel := wheel_of(info)) is not None]

    async def candidates(self, tags: Iterable[str]) -> Sequence[Wheel]:
        """The wheels for a worker with these tags: the newest of each package."""
        return newest(for_tags(await self.list(), tags))

    async def get(self, name: str) -> Wheel:
        info = await self._objects.info(name)
        wheel = wheel_of(info) if info is not None else None
        if wheel is None:
            raise _not_found(name)
        return wheel

    async def put(
        self,
        name: str,
        file: Path,
        *,
        tags: Sequence[str] = (),
        origin: Origin | None = None,
        replace: bool | None = None,
    ) -> Wheel:
        """Store the wheel in this file. `replace` is only written into the history; the version rule decides.

        Raises Invalid for a wrong name, tags or file, TooLarge, and Conflict for a version that is not
        higher than all existing ones.
        """
        wanted_tags = check_tags(tags)
        said, sha256 = await asyncio.to_thread(self._examine, name, file)
        headers = {"content-type": "application/octet-stream", SHA256_HEADER: sha256}
        headers |= {TAGS_HEADER: ",".join(wanted_tags)} if wanted_tags else {}
        tenant_id = origin.tenant_id if origin else None
        headers |= {TENANT_HEADER: tenant_id} if tenant_id is not None else {}
        admit = _only_upwards(said, tenant_id)
        admit(await self._objects.list())  # most refusals come before the bytes are sent
        info = await self._objects.put(name, _pieces(file), headers=headers, admit=admit)
        wheel = wheel_of(info)
        assert wheel is not None, "its name was checked"
        await self._remember(WheelAction.UPLOAD, wheel, origin, replace=replace)
        return wheel

    async def delete(self, name: str, *, origin: Origin | None = None) -> Wheel:
        wheel = await self.get(name)
        try:
            await self._objects.delete(name)
        except NotFound:
            raise _not_found(name) from None
        await self._remember(WheelAction.DELETE, wheel, origin)
        return wheel

    async def stream(self, name: str) -> AsyncIterator[bytes]:
        """Its bytes, checked against their digest in the last step."""
        await self.get(name)
        async for piece in self._objects.stream(name):
            yield piece

    async def download(self, wheel: Wheel, file: Path) -> None:
        """Into this file, which is valid only if this returns. NotFound if the wheel has changed."""
        if (await self.get(wheel.name)).nuid != wheel.nuid:
            raise _not_found(wheel.name)
        with file.open("wb") as out:
            async for piece in self._objects.stream(wheel.name):
                await asyncio.to_thread(out.write, piece)

    def _examine(self, name: str, file: Path) -> tuple[WheelName, str]:
        size = file.stat().st_size
        if size > self._bytes_max:
            raise TooLarge(
                f"The wheel has {size} bytes; {self._bytes_max} are taken (PYOCO_WHEEL_MAX_BYTES).",
                err_id="ERR-PYOCO-0002",
            )
        return check_content(name, file, self.unpacked_max), _sha256(file)

    async def _remember(
        self, action: WheelAction, wheel: Wheel, origin: Origin | None, *, replace: bool | None = None
    ) -> None:
        try:
            await self.history.add(
                action,
                wheel.name,
                origin or Origin(),
                tags=wheel.tags,
                size=wheel.size,
                sha256=wheel.sha256,
                replace=replace,
            )
        except Unavailable as error:  # the change itself has succeeded
            fields = {"wheel_name": wheel.name, "action": action.value, "error": error.message}
            log.error("the history of wheels lacks an entry", extra=fields)


def _only_upwards(said: WheelName, tenant_id: str | None) -> Admit:
    def admit(there: Sequence[ObjectInfo]) -> None:
        wheels = [wheel for info in there if (wheel := wheel_of(info)) is not None]
        of_package = [wheel for wheel in wheels if wheel.package == said.package]
        if any(wheel.tenant_id != tenant_id for wheel in of_package):
            # Workers install the newest of a package: a higher version would run in runs of other tenants.
            raise Conflict(
                f"The package {said.package} belongs to another owner. Choose another name for it.",
                err_id=VERSION_REFUSED,
            )
        highest = max((wheel.version for wheel in of_package), default=None)
        if highest is not None and said.version <= highest:
            known = "already exists" if said.version == highest else f"is older than {highest}"
            raise Conflict(
                f"Version {said.version} of {said.package} {known}: bump version, it must be greater.",
                err_id=VERSION_REFUSED,
            )

    return admit


def _not_found(name: str) -> NotFound:
    return NotFound(f"There is no wheel {name}. Look at GET /wheels.", err_id=NOT_FOUND)


def _sha256(file: Path) -> str:
    with file.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


async def _pieces(file: Path) -> AsyncIterator[bytes]:
    source: BinaryIO
    with file.open("rb") as source:
        while piece := await asyncio.to_thread(source.read, FILE_PIECE_BYTES):
            yield piece
