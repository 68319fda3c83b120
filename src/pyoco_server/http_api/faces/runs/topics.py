"""Topics of this face for `GET /stream`: the list, one run, the output of a run."""

from __future__ import annotations

from pyoco_server.http_api.faces.runs.list_stream_routes import open_changes
from pyoco_server.http_api.faces.runs.log_routes import shown
from pyoco_server.http_api.faces.runs.params import WATCH_SEC_MAX, WatchParams
from pyoco_server.http_api.faces.runs.request_context import checked_id
from pyoco_server.http_api.faces.runs.watch_routes import open_snapshots
from pyoco_server.http_api.gateway import Gateway
from pyoco_server.http_api.streaming.log_stream import open_log
from pyoco_server.http_api.streaming.sse import Backlog
from pyoco_server.http_api.streaming.topics import Opener, Topic
from pyoco_server.operations.identity.callers import Caller


async def _list(gateway: Gateway, caller: Caller, _name: str, after: str | None) -> Topic:
    return Topic(await open_changes(gateway, caller.tenant_id, after), comes_to_an_end=False)


async def _run(gateway: Gateway, caller: Caller, name: str, after: str | None) -> Topic:
    asked = WatchParams(records=True, since=None, timeout_sec=WATCH_SEC_MAX, last_event_id=after)
    snapshots = await open_snapshots(gateway, caller.tenant_id, checked_id(name), asked)
    return Topic(snapshots, comes_to_an_end=True)


async def _log(gateway: Gateway, caller: Caller, name: str, after: str | None) -> Topic:
    events = await open_log(gateway, caller.tenant_id, checked_id(name), [None, after], shown)
    return Topic(events or _nothing_more(), comes_to_an_end=True)


def _nothing_more() -> Backlog:
    empty = Backlog()
    empty.close()
    return empty


TOPICS: dict[str, Opener] = {"runs": _list, "run": _run, "log": _log}
