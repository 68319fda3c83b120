"""Shared by the routes of the runs face: the run in the path, waiting requests, lists."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TypeVar

from starlette.requests import Request

from pyoco_server.errors import Limited, NotFound
from pyoco_server.http_api.context import Store
from pyoco_server.http_api.faces.runs import wire
from pyoco_server.http_api.gateway import Gateway
from pyoco_server.http_api.middleware.callers import limit_key_of
from pyoco_server.http_api.requests.connected import while_connected
from pyoco_server.lifecycle.run import Run
from pyoco_server.names import is_run_id
from pyoco_server.operations.runs import query

T = TypeVar("T")


def run_id_of(request: Request) -> str:
    return checked_id(str(request.path_params["run_id"]))


def checked_id(run_id: str) -> str:
    """A text that cannot be a run id counts as an unknown one."""
    if not is_run_id(run_id):
        raise NotFound("There is no such run. Check the id, or list runs with GET /runs.")
    return run_id


async def while_allowed(request: Request, gateway: Gateway, waiting: Coroutine[object, object, T]) -> T:
    """Wait for a result. Counts as one of the caller's streams; ends when the client disconnects."""
    try:
        leave = gateway.streams.concurrency.enter(limit_key_of(request))
    except Limited:
        waiting.close()
        raise
    try:
        return await while_connected(request, waiting)
    finally:
        leave()


async def shown_in_lists(store: Store, runs: list[Run], *, detailed: bool) -> list[object]:
    if not detailed:
        return [wire.summary(run) for run in runs]
    stored = await query.get_many(store, [run.run_id for run in runs])
    return [wire.snapshot(one, records=True) for one in stored]
