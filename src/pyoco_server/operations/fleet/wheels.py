"""List, upload, download and delete wheels, and list their history (REQ-0025).

With tenants, only the tenant that uploaded a wheel sees it; for others it does not exist.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from pyoco_server.errors import Invalid, NotFound
from pyoco_server.operations.identity.callers import Caller
from pyoco_server.store.fleet.wheels import (
    HistoryEntry,
    Origin,
    Wheel,
    WheelAction,
    check_tags,
    check_wheel_name,
)
from pyoco_server.store.fleet.wheels.registry import NOT_FOUND
from pyoco_server.store.store import Store

Source = Mapping[str, str | None]


async def list_wheels(store: Store, caller: Caller) -> list[Wheel]:
    return [wheel for wheel in await store.wheels.list() if _is_visible(wheel, caller)]


async def list_history(
    store: Store, caller: Caller, *, limit: int, wheel_name: str | None, action: WheelAction | None
) -> list[HistoryEntry]:
    return await store.wheels.history.list(
        limit=limit, wheel_name=wheel_name, action=action, tenant_id=caller.tenant_id
    )


def is_wheel_name(name: str) -> bool:
    try:
        check_wheel_name(name)
    except Invalid:
        return False
    return True


def check(name: str, tags: Sequence[str]) -> None:
    """The checks that are possible before the file is received."""
    check_wheel_name(name)
    check_tags(tags)


async def put_wheel(
    store: Store,
    caller: Caller,
    name: str,
    file: Path,
    *,
    tags: Sequence[str],
    replace: bool,
    source: Source,
) -> Wheel:
    store.room.check()
    return await store.wheels.put(name, file, tags=tags, origin=_origin(caller, source), replace=replace)


async def delete_wheel(store: Store, caller: Caller, name: str, *, source: Source) -> None:
    await get_wheel(store, caller, name)
    await store.wheels.delete(name, origin=_origin(caller, source))


async def get_wheel(store: Store, caller: Caller, name: str) -> Wheel:
    try:
        check_wheel_name(name)
    except Invalid as error:
        raise NotFound("There is no such wheel. Look at GET /wheels.", err_id=NOT_FOUND) from error
    wheel = await store.wheels.get(name)
    if not _is_visible(wheel, caller):
        raise NotFound(f"There is no wheel {name}. Look at GET /wheels.", err_id=NOT_FOUND)
    return wheel


def stream(store: Store, wheel: Wheel) -> AsyncIterator[bytes]:
    return store.wheels.stream(wheel.name)


def _is_visible(wheel: Wheel, caller: Caller) -> bool:
    return caller.tenant_id in (None, wheel.tenant_id)


def _origin(caller: Caller, source: Source) -> Origin:
    return Origin(tenant_id=caller.tenant_id, api_key_id=caller.api_key_id, source=source)
