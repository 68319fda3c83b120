"""The wire format of the jobs face: requests to submissions, runs to jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from pyoco_server.canonical_json import CanonicalJsonError, parse
from pyoco_server.errors import Invalid, problem_at
from pyoco_server.http_api.faces.jobs.errors import Malformed
from pyoco_server.http_api.middleware.tracing_headers import correlation_id_of, traceparent_of
from pyoco_server.http_api.responses.instants import rfc3339, rfc3339_or_none
from pyoco_server.json_value import JsonObject, JsonValue
from pyoco_server.lifecycle.retry import results
from pyoco_server.lifecycle.run import Lack, Run
from pyoco_server.lifecycle.status import OutputKept, RunStatus, TaskStatus
from pyoco_server.operations.identity.callers import Caller
from pyoco_server.operations.runs.submit import Submission

# The highest progress of a job that has not completed.
NOT_COMPLETED_MAX = 99

STATUS_OF = {
    RunStatus.PENDING: "pending",
    RunStatus.RUNNING: "running",
    RunStatus.COMPLETED: "completed",
    RunStatus.FAILED: "failed",
    RunStatus.CANCELLED: "canceled",
}
_Wanted = TypeVar("_Wanted")
STAGE_OF = {theirs: ours for ours, theirs in STATUS_OF.items()}


class JobRequest(msgspec.Struct):
    parameters: JsonObject
    tags: list[str] = []
    flow: str | msgspec.UnsetType = msgspec.UNSET
    tag: str | msgspec.UnsetType = msgspec.UNSET


class TagRequest(msgspec.Struct):
    tag: str


def submission(body: bytes, headers: Mapping[str, str], caller: Caller, default_flow: str) -> Submission:
    asked = _converted(body, headers, JobRequest)
    return Submission(
        flow_name=default_flow if asked.flow is msgspec.UNSET else asked.flow,
        params=asked.parameters,
        tag=None if asked.tag is msgspec.UNSET else asked.tag,
        tags=asked.tags,
        tenant_id=caller.tenant_id,
        api_key_id=caller.api_key_id,
        correlation_id=correlation_id_of(headers),
        traceparent=traceparent_of(headers),
    )


def tag_asked(body: bytes, headers: Mapping[str, str]) -> str:
    return _converted(body, headers, TagRequest).tag


def job(run: Run) -> JsonObject:
    """Every member, set or not. `run` has the tasks that its snapshot keeps."""
    return {
        "id": run.run_id,
        "status": STATUS_OF[run.stage],
        "createdAt": rfc3339(run.submitted_at),
        "startedAt": rfc3339_or_none(run.started_at),
        "completedAt": rfc3339_or_none(run.ended_at),
        "tags": list(run.tags),
        "flow": run.flow_name,
        "error": run.error,
        "progress": _progress(run),
        "result": _result(run),
    }


def _progress(run: Run) -> int | None:
    """Percentage of tasks that succeeded; None while the number of tasks is not known.

    Only a completed job has 100: failed, canceled and skipped tasks do not count.
    """
    if run.ended is RunStatus.COMPLETED:
        return 100
    # Iterations of a loop are added one by one: only planned tasks count.
    planned = [record for name, record in run.tasks.items() if not name.endswith("]")]
    if not planned:
        return None
    done = sum(record.state is TaskStatus.SUCCEEDED for record in planned)
    return min(100 * done // len(planned), NOT_COMPLETED_MAX)


def _result(run: Run) -> JsonValue:
    """Small results only. `/runs/{id}/result` has large ones, and those that this copy lacks."""
    if run.ended is not RunStatus.COMPLETED or run.lacks > Lack.NOTHING:
        return None
    found = results(run)
    if any(record.kept is not OutputKept.STORED for record in found.values()):
        return None
    outputs = {name: record.output for name, record in found.items()}
    return next(iter(outputs.values())) if len(outputs) == 1 else outputs or None


def _converted(body: bytes, headers: Mapping[str, str], kind: type[_Wanted]) -> _Wanted:
    try:
        return msgspec.convert(parse(body), kind)
    except CanonicalJsonError as error:
        raise Malformed(f"The body is not JSON as we read it: {error}.") from None
    except msgspec.ValidationError as error:
        message = str(error)
        details = [problem_at(["body"], message)]
        raise Invalid(f"The body is not valid: {message}.", details=details) from None
