"""The known flows: those that live workers list and those of past runs, with figures of their latest runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from pyoco_server.json_value import JsonObject
from pyoco_server.lifecycle.run import Run
from pyoco_server.operations.fleet import workers
from pyoco_server.read_model.run_table import Filter
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.store import Store

FLOWS_MAX = 200
# How many of its latest runs the figures of a flow are from.
LOOKED_AT_MAX = 30


class KnownFlow(msgspec.Struct, frozen=True, kw_only=True):
    """`tags`: of the workers that have it. `durations_sec`: of the latest completed runs, oldest first."""

    flow_name: str
    description: str
    tags: list[str]
    workers: int
    ended: dict[str, int]
    durations_sec: list[float]
    last_run_id: str | None
    last_status: str | None
    last_tag: str | None
    last_at: float | None
    # Its parameters: `{name, required, default?, type?, schema?}` each. None: no worker lists them.
    params: list[JsonObject] | None = None


@dataclass
class _Listed:
    """What live workers list about one flow."""

    about: str = ""
    tags: dict[str, None] = field(default_factory=dict)
    workers: int = 0
    params: list[JsonObject] | None = None


async def known_flows(store: Store, read_model: ReadModel, tenant_id: str | None) -> list[KnownFlow]:
    await read_model.catch_up()
    listed = _listed(await workers.alive(store))
    names = sorted({*listed, *read_model.runs.flows(tenant_id, FLOWS_MAX)})[:FLOWS_MAX]
    return [_known(read_model, name, listed.get(name, _Listed()), tenant_id) for name in names]


def _listed(entries: Iterable[workers.Entry]) -> dict[str, _Listed]:
    """What the entries of live workers list, by name of the flow."""
    listed: dict[str, _Listed] = {}
    for entry in entries:
        flows = entry.get("flows")
        for name, about in (flows if isinstance(flows, dict) else {}).items():
            known = listed.setdefault(name, _Listed(str(about)))
            known.tags |= dict.fromkeys(workers.tags_of(entry))
            known.workers += 1
            known.params = known.params or _params(entry, name)
    return listed


def _known(read_model: ReadModel, name: str, listed: _Listed, tenant_id: str | None) -> KnownFlow:
    runs = read_model.runs.page(Filter(flow=name, tenant=tenant_id), LOOKED_AT_MAX)
    last = runs[0] if runs else None
    return KnownFlow(
        flow_name=name,
        description=listed.about,
        tags=list(listed.tags),
        workers=listed.workers,
        ended=_ended(runs),
        durations_sec=[_duration(run) for run in reversed(runs) if run.ended == "COMPLETED"],
        last_run_id=last.run_id if last else None,
        last_status=last.status.value if last else None,
        last_tag=last.tag if last else None,
        last_at=last.updated_at if last else None,
        params=listed.params,
    )


def _params(entry: Mapping[str, object], name: str) -> list[dict[str, object]] | None:
    by_flow = entry.get("flow_params")
    params = by_flow.get(name) if isinstance(by_flow, dict) else None
    return params if isinstance(params, list) else None


def _ended(runs: Iterable[Run]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for run in runs:
        if run.ended is not None:
            sums[run.ended.value] = sums.get(run.ended.value, 0) + 1
    return sums


def _duration(run: Run) -> float:
    return max(0.0, (run.ended_at or run.updated_at) - (run.started_at or run.submitted_at))
