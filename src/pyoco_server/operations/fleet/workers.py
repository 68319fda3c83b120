"""Who works here: list workers, hide or drain one, say whether one lives (REQ-0015, REQ-0022)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pyoco_server import clock
from pyoco_server.errors import Conflict, Invalid, NotFound, Unavailable
from pyoco_server.lifecycle.run import Claim
from pyoco_server.names import check_worker_id
from pyoco_server.operations.identity.callers import Caller
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.fleet.registry import DRAIN, NOT_FOUND, NOTHING_YET, WorkerState, state_when_read
from pyoco_server.store.store import Store

ACTIVE = (WorkerState.RUNNING, WorkerState.IDLE)
# An entry bears its worker's clock, and the time it was stored the broker's.
CLOCKS_APART_SEC = 60.0
# So many renewals of its lease a worker may miss before it is said to be lost.
LEASE_OVERDUE = 2.5
# How many a page is kept up to date about.
TOLD_MAX = 500

Entry = dict[str, Any]

_ALWAYS: Mapping[str, Any] = {
    "instance_id": "",
    "last_seen_at": None,
    "last_heartbeat_at": None,
    "tags": [],
    **NOTHING_YET,
}
_OF_THE_LAST_RUN = ("last_run_id", "last_run_status", "last_run_started_at", "last_run_finished_at")


class WorkerFilter(NamedTuple):
    """Which workers: `gone` too, or only those that run or wait; of one state; those hidden too."""

    gone: bool = False
    state: WorkerState | None = None
    hidden: bool = False


async def list_workers(
    store: Store, read_model: ReadModel, wanted: WorkerFilter, *, limit: int, caller: Caller
) -> list[Entry]:
    """Those seen last come first. A tenant is shown nothing of others' runs and wheels."""
    found = await (_all(store) if wanted.gone else alive(store))
    shown = [
        entry
        for entry in found
        if (wanted.hidden or not entry["hidden"]) and wanted.state in (None, entry["state"])
    ]
    shown.sort(key=_last_seen, reverse=True)
    del shown[limit:]
    for entry in shown:
        entry.pop("flow_params", None)  # long, and asked for with the flows
    if caller.tenant_id is None:
        return shown
    own_wheels = {wheel.name for wheel in await store.wheels.list() if wheel.tenant_id == caller.tenant_id}
    return [_for_tenant(entry, caller.tenant_id, read_model, own_wheels) for entry in shown]


async def alive(store: Store) -> list[Entry]:
    """Those that run or wait. Costs the same however many workers there once were."""
    since = clock.now() - store.config.worker_disconnect_timeout_sec - CLOCKS_APART_SEC
    found = await store.registry.list(written_since=since)
    return [entry for entry in _as_read(store, found) if entry["state"] in ACTIVE]


async def patch(
    store: Store, worker_id: str, *, hidden: bool | None = None, draining: bool | None = None
) -> float:
    """So from now on, whatever the worker itself writes meanwhile; None stays as it is. When that was.

    Draining is asked of the process that runs now, which says itself when it does; Conflict without one.
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
    """The members that a run shows of its worker; none when the broker does not say.

    Another process that was started under the same id is not the one that has the run.
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
    """For how long a process has not renewed its lease, once that is too long; None while it is well.

    The first sign of a loss: the entry in the registry reads alive for longer.
    """
    silent_sec = await store.leases.silent_sec(instance_id) if instance_id else None
    allowed_sec = LEASE_OVERDUE * store.config.worker_lease_interval_sec
    return silent_sec if silent_sec is not None and silent_sec > allowed_sec else None


def is_gone(store: Store, entry: Entry, now: float) -> bool:
    """It said goodbye, or was not heard of for too long."""
    return state_when_read(entry, now, store.config.worker_disconnect_timeout_sec) not in ACTIVE


async def _all(store: Store) -> list[Entry]:
    return _as_read(store, await store.registry.list())


def _as_read(store: Store, entries: list[Entry]) -> list[Entry]:
    now, timeout_sec = clock.now(), store.config.worker_disconnect_timeout_sec
    return [_read(entry, state_when_read(entry, now, timeout_sec)) for entry in entries]


def _read(entry: Entry, state: WorkerState) -> Entry:
    """A process that is gone drains no more; `drain_requested` is the wish, `draining` what came of it."""
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
    def is_own(run_id: Any) -> bool:
        run = read_model.find(run_id) if isinstance(run_id, str) else None
        return run is not None and run.tenant_id == tenant_id

    running = [run_id for run_id in entry.get("current_run_ids") or () if is_own(run_id)]
    current = entry["current_run_id"]
    shown = entry | {
        "current_run_id": current if is_own(current) else next(iter(running), None),
        "current_run_ids": running,
    }
    if not is_own(entry["last_run_id"]):
        shown |= dict.fromkeys(_OF_THE_LAST_RUN)
    if entry.get("problem"):
        shown["problem"] = "It cannot execute runs now."  # the text may name files and modules of others
    if isinstance(entry.get("wheel_sync"), dict):
        shown["wheel_sync"] = _own_wheels_only(entry["wheel_sync"], own_wheels)
    return shown


def _own_wheels_only(report: Entry, own_wheels: set[str]) -> Entry:
    """Names, and texts in which names may stand; how many there are is nobody's secret."""

    def is_own(item: Any) -> bool:
        return (item.get("wheel_name") if isinstance(item, dict) else item) in own_wheels

    lists = {name: list(filter(is_own, items)) for name, items in report.items() if isinstance(items, list)}
    return report | lists | {"last_error": None}
