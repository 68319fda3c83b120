"""A run in this face's terms: status, instants, nodes."""

from __future__ import annotations

from datetime import UTC, datetime

from pyoco_server.json_value import JsonObject
from pyoco_server.lifecycle.run import Run, TaskRecord
from pyoco_server.lifecycle.status import Driver, RunStatus, TaskStatus

GRAPH, FLOW = "graph:", "flow:"
YEARS = (datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC))

_STATUS = {
    RunStatus.COMPLETED: "COMPLETED",
    RunStatus.FAILED: "FAILED",
    RunStatus.CANCELLED: "CANCELED",
}
_NODE_STATUS = {
    TaskStatus.PENDING: "IDLE",
    TaskStatus.READY: "READY",
    TaskStatus.RUNNING: "RUNNING",
    TaskStatus.WAITING: "WAITING",
    TaskStatus.SUCCEEDED: "SUCCEEDED",
    TaskStatus.FAILED: "FAILED",
    TaskStatus.CANCELLED: "CANCELED",
}


def execution(run: Run) -> JsonObject:
    """The body of `GET /executions/{id}`. Its listed events fold into the same: see `state`."""
    return summary(run) | {"input": run.params, "nodes": [node(run, *one) for one in run.tasks.items()]}


def summary(run: Run) -> JsonObject:
    return {
        "executionId": run.run_id,
        "status": status_of(run),
        "graphId": graph_id(run.flow_name, run.driver),
        "graphVersion": run.graph.version if run.graph else None,
        "driver": run.driver,
        "createdAt": instant(run.submitted_at),
        "startedAt": instant_or_none(run.submitted_at if run.driver is Driver.WORKER else run.started_at),
        "endedAt": instant_or_none(run.ended_at),
        "cancelRequestedAt": instant_or_none(run.cancel.at if run.cancel else None),
        "archived": run.archived,
        "error": run_error(run),
    }


def node(run: Run, name: str, record: TaskRecord) -> JsonObject:
    wait = record.wait
    canceled = record.state is TaskStatus.CANCELLED
    return {
        "nodeId": name,
        "status": node_status(record),
        "canceledByExecution": canceled and not record.skipped and run.ended is RunStatus.CANCELLED,
        "attempt": record.attempt,
        "workerId": record.worker_id,
        "progress": plain_number(record.progress),
        "message": record.message,
        "waitKey": wait.key if wait else None,
        "prompt": wait.prompt if wait else None,
        "input": record.payload,
        "output": record.output,
        "error": error_of(record),
        "startedAt": instant_or_none(record.started_at),
        "endedAt": instant_or_none(record.ended_at),
    }


def status_of(run: Run) -> str:
    return "ACTIVE" if run.ended is None else _STATUS[run.ended]


def node_status(record: TaskRecord) -> str:
    """A task that was RUNNING when its worker was lost stays RUNNING until it is started again."""
    lost = record.state is TaskStatus.PENDING and record.started_at is not None and record.ended_at is None
    return "RUNNING" if lost else _NODE_STATUS[record.state]


def graph_id(flow_name: str, driver: Driver) -> str:
    return flow_name.removeprefix(GRAPH) if driver is Driver.CLIENT else FLOW + flow_name


def flow_name_of(graph_id: str) -> str:
    """The flow name of runs of this graph or flow."""
    return graph_id.removeprefix(FLOW) if graph_id.startswith(FLOW) else GRAPH + graph_id


def error_of(record: TaskRecord) -> JsonObject | None:
    return None if record.error is None else {"code": record.code, "message": record.error}


def run_error(run: Run) -> JsonObject | None:
    if run.ended is not RunStatus.FAILED:
        return None
    return {"code": run.reason, "message": run.error, "nodeId": run.failed_task}


def plain_number(value: float | None) -> int | float | None:
    """42 is shown as it was sent, although it is stored as 42.0."""
    return int(value) if value is not None and float(value).is_integer() else value


def instant_or_none(at: float | None) -> str | None:
    return None if at is None else instant(at)


def instant(at: float) -> str:
    """RFC 3339 in UTC, to the microsecond. An instant outside the calendar becomes its first or last day."""
    try:
        when = datetime.fromtimestamp(at, UTC)
    except (ValueError, OverflowError, OSError):
        when = YEARS[at > 0]
    return when.isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"
