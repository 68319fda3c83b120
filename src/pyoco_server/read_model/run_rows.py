"""The row of a run in the table behind lists, with the columns that lists filter by."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from pyoco_server.lifecycle.graph import named_only
from pyoco_server.lifecycle.run import Run, due_at, is_delayed, owes_job
from pyoco_server.lifecycle.status import RunStatus
from pyoco_server.read_model.tag_table import SubmittedRun

_encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(Run).decode


# In the column `status`: RUNNING, and at least one of its tasks waits for an answer or an instant.
WAITING = "WAITING"


class Row(NamedTuple):
    """`status`: as lists are filtered by it (`listed_status`)."""

    run_id: str
    tenant: str | None
    flow: str
    tag: str
    status: str
    yaml: str | None
    seq: int
    clock: float
    updated_at: float
    starts_at: float | None
    owed_since: float | None
    instance: str | None
    stuck_cancel: int | None
    state: bytes
    schedule: str | None = None
    due_at: float | None = None
    archived: int | None = None
    batch: str | None = None


class FoundRun(NamedTuple):
    seq: int
    state: bytes


class ChangedRun(NamedTuple):
    """A run whose row is to be written, without params and tasks, and the position of its last change."""

    run: Run
    seq: int
    clock: float


def row_of(changed: ChangedRun) -> Row:
    run = changed.run
    return Row(
        run_id=run.run_id,
        tenant=run.tenant_id,
        flow=run.flow_name,
        tag=run.tag,
        status=listed_status(run),
        yaml=run.workflow_yaml_sha256,
        seq=changed.seq,
        clock=changed.clock,
        updated_at=run.updated_at,
        starts_at=run.start_at if is_delayed(run) else None,
        owed_since=run.job_owed_since if owes_job(run) and not is_delayed(run) else None,
        instance=run.claim.instance_id if run.claim else None,
        stuck_cancel=1 if run.cancel and owes_job(run) else None,
        state=_encode(run),
        schedule=run.schedule_id,
        due_at=due_at(run),
        archived=1 if run.archived else None,
        batch=run.batch_id,
    )


def listed_status(run: Run) -> str:
    """The status, but WAITING for a run with open waits. A run with a cancel request waits for nothing."""
    return WAITING if is_waiting(run) else run.status.value


def is_waiting(run: Run) -> bool:
    return bool(run.waits) and run.cancel is None and run.status is RunStatus.RUNNING


def submitted_row(run: Run) -> SubmittedRun:
    return SubmittedRun(
        run_id=run.run_id,
        tenant=run.tenant_id,
        stage=run.stage.value,
        created=run.submitted_at,
        tags=run.tags,
        flow=run.flow_name,
        took=_took(run),
        retry_of=run.retry_of,
    )


def _took(run: Run) -> float | None:
    if run.started_at is None or run.ended_at is None:
        return None
    return max(0.0, run.ended_at - run.started_at)


def slim(run: Run) -> Run:
    """The run as lists need it: without params and task records. `due` stays."""
    return replace(run, params={}, tasks={}, graph=named_only(run.graph))


def decode_all(states: list[bytes]) -> list[Run]:
    return [decode(state) for state in states]


def newest_first(found: list[FoundRun]) -> list[Run]:
    """A page is chosen by positions in the log, and ordered by the instants that it shows."""
    runs = [decode(one.state) for one in found]
    return sorted(runs, key=lambda run: (run.updated_at, run.run_id), reverse=True)
