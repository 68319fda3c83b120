"""List workers, hide or drain one, and check whether one is alive (REQ-0015, REQ-0022)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pyoco_server import clock
from pyoco_server.errors import Conflict, Invalid, NotFound, Unavailable
from pyoco_server.lifecycle.run import Claim
from pyoco_server.names import check_worker_id
from pyoco_server.operations.identity.callers import Caller
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.fleet.registry import DRAIN, NOT_FOUND, NOTHING_YET, WorkerState, state_when_read
from pyoco_server.store.store import Store

ACTIVE = (WorkerState.RUNNING, WorkerState.IDLE)
# The instants in an entry are of the worker's clock; the time of its storage is of the broker's.
CLOCKS_APART_SEC = 60.0
# A lease is overdue after this many missed renewals.
LEASE_OVERDUE = 2.5
# How many workers a live list contains at most.
LIVE_LIST_MAX = 500

Entry = dict[str, object]

_ALWAYS: Mapping[str, object] = {
    "instance_id": "",
    "last_seen_at": None,
    "last_heartbeat_at": None,
    "tags": [],
    **NOTHING_YET,
}
_OF_THE_LAST_RUN = ("last_run_id", "last_run_status", "last_run_started_at", "last_run_finished_at")


class WorkerFilter(NamedTuple):
    """`gone`: also workers that are not alive. `state`: only of this state. `hidden`: also hidden workers."""

    gone: bool = False
    state: WorkerState | None = None
    hidden: bool = False


async def list_workers(
    store: Store, read_model: ReadModel, wanted: WorkerFilter, *, limit: int, caller: Caller
) -> list[Entry]:
    """The last seen first. A tenant sees nothing of the runs and wheels of others."""
    found = await (_all(store) if wanted.gone else alive(store))
    shown = [
        entry
        for entry in found
        if (wanted.hidden or not entry["hidden"]) and wanted.state in (None, entry["state"])
    ]
    shown.sort(key=_last_seen, reverse=True)
    del shown[limit:]
    for entry in shown:
        entry.pop("flow_params", None)  # long, and part of the list of flows
    if caller.tenant_id is None:
        return shown
    own_wheels = {wheel.name for wheel in await store.wheels.list() if wheel.tenant_id == caller.tenant_id}
    return [_for_tenant(entry, caller.tenant_id, read_model, own_wheels) for entry in shown]


async def alive(store: Store) -> list[Entry]:
    """Workers that are running or idle. The cost does not depend on the number of past workers."""
    since = clock.now() - store.config.worker_disconnect_timeout_sec - CLOCKS_APART_SEC
    found = await store.registry.list(written_since=since)
    return [entry for entry in _as_read(store, found) if entry["state"] in ACTIVE]


async def patch(
    store: Store, worker_id: str, *, hidden: bool | None = None, draining: bool | None = None
) -> float:
    """Change an entry; concurrent writes of the worker do not undo it. None: no change. Returns the instant.

    Draining is requested from the current process of the worker, which reports when it drains. Conflict if no
    process is alive.
    """
    try:
        check_worker_id(worker_id)
    except Invalid as error:
        raise NotFound("There is no such worker. Look at GET /workers.", err_id=NOT_FOUND) from error
    updated_at = clock.now()

    def changes_of(entry: Entry) -> Entry:
        changes: Entry = {"updated_at": updated_at}
        if hidden is not None:
            changes["hidden"] = hidden
        if draining is not None:
            _check_runs(store, worker_id, entry)
            changes[DRAIN] = entry.get("instance_id") if draining else None
        return changes

    await store.registry.change(worker_id, changes_of)
    return updated_at


async def liveness(store: Store, claim: Claim) -> Entry:
    """The members of a run about its worker; none if the broker is away.

    Another process that was started with the same id does not hold the run.
    """
    try:
        entry = await store.registry.get(claim.worker_id)
        overdue_sec = await lease_overdue_sec(store, claim.instance_id)
    except Unavailable:
        return {}
    if entry is None:
        return {"worker_alive": False, "worker_heartbeat_at": None, "worker_tags": None}
    [read] = _as_read(store, [entry])
    is_the_same = read["instance_id"] in ("", claim.instance_id)
    return {
        "worker_alive": read["state"] in ACTIVE and is_the_same and overdue_sec is None,
        "worker_heartbeat_at": read["last_heartbeat_at"],
        "worker_tags": read["tags"],
    }


async def lease_overdue_sec(store: Store, instance_id: str) -> float | None:
    """For how long a process has not renewed its lease, if that is too long; None otherwise.

    This is the first sign of a loss: the registry entry looks alive for longer.
    """
    silent_sec = await store.leases.silent_sec(instance_id) if instance_id else None
    allowed_sec = LEASE_OVERDUE * store.config.worker_lease_interval_sec
    return silent_sec if silent_sec is not None and silent_sec > allowed_sec else None


def tags_of(entry: Entry) -> list[str]:
    tags = entry.get("tags")
    return tags if isinstance(tags, list) else []


def is_gone(store: Store, entry: Entry, now: float) -> bool:
    """The worker has stopped, or has sent no heartbeat for too long."""
    return state_when_read(entry, now, store.config.worker_disconnect_timeout_sec) not in ACTIVE


async def _all(store: Store) -> list[Entry]:
    return _as_read(store, await store.registry.list())


def _as_read(store: Store, entries: list[Entry]) -> list[Entry]:
    now, timeout_sec = clock.now(), store.config.worker_disconnect_timeout_sec
    return [_read(entry, state_when_read(entry, now, timeout_sec)) for entry in entries]


def _read(entry: Entry, state: WorkerState) -> Entry:
    """`drain_requested`: an operator wants it. `draining`: the worker reports it. Both need a live worker."""
    wish = entry.get(DRAIN)
    shown = {**_ALWAYS, **entry} | {
        "state": state,
        "hidden": bool(entry.get("hidden")),
        "heartbeat_at": entry.get("last_heartbeat_at"),
        "draining": state in ACTIVE and bool(entry.get("draining")),
        "drain_requested": state in ACTIVE and wish is not None and wish == entry.get("instance_id"),
    }
    shown.pop(DRAIN, None)
    return shown


def _check_runs(store: Store, worker_id: str, entry: Entry) -> None:
    state = state_when_read(entry, clock.now(), store.config.worker_disconnect_timeout_sec)
    if state not in ACTIVE:
        message = f"Worker {worker_id} is {state}: it takes no runs, and works again when it is started."
        raise Conflict(message, details={"worker_id": worker_id, "state": state})


def _last_seen(entry: Entry) -> float:
    seen_at = entry["last_seen_at"]
    return float(seen_at) if isinstance(seen_at, int | float) else 0.0


def _for_tenant(entry: Entry, tenant_id: str, read_model: ReadModel, own_wheels: set[str]) -> Entry:
    def is_own(run_id: object) -> bool:
        run = read_model.find(run_id) if isinstance(run_id, str) else None
        return run is not None and run.tenant_id == tenant_id

    listed, current = entry.get("current_run_ids"), entry["current_run_id"]
    running = [run_id for run_id in listed if is_own(run_id)] if isinstance(listed, list) else []
    shown = entry | {
        "current_run_id": current if is_own(current) else next(iter(running), None),
        "current_run_ids": running,
    }
    if not is_own(entry["last_run_id"]):
        shown |= dict.fromkeys(_OF_THE_LAST_RUN)
    if entry.get("problem"):
        shown["problem"] = "It cannot execute runs now."  # the text may name files and modules of others
    if isinstance(report := entry.get("wheel_sync"), dict):
        shown["wheel_sync"] = _own_wheels_only(report, own_wheels)
    return shown


def _own_wheels_only(report: Entry, own_wheels: set[str]) -> Entry:
    """Removes names of others' wheels, and texts that may contain them. Counts are not secret."""

    def is_own(item: object) -> bool:
        return (item.get("wheel_name") if isinstance(item, dict) else item) in own_wheels

    lists = {name: list(filter(is_own, items)) for name, items in report.items() if isinstance(items, list)}
    return report | lists | {"last_error": None}
