"""The jobs face's words: requests into ours, runs into jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from pyoco_server.canonical_json import CanonicalJsonError, parse
from pyoco_server.errors import Invalid
from pyoco_server.http_api.error_table import FrameworkRefusal
from pyoco_server.http_api.faces.jobs.errors import Malformed
from pyoco_server.http_api.instants import rfc3339, rfc3339_or_none
from pyoco_server.lifecycle.retry import results
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import OutputKept, RunStatus
from pyoco_server.operations.callers import Caller
from pyoco_server.operations.submit import Submission

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
    parameters: dict[str, Any]
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
        api_key_id=caller.id,
        correlation_id=headers.get("x-correlation-id"),
        traceparent=headers.get("traceparent"),
    )


def tag_asked(body: bytes, headers: Mapping[str, str]) -> str:
    return _converted(body, headers, TagRequest).tag


def job(run: Run) -> dict[str, Any]:
    """Every member, whether or not it is set. `run` has its tasks, as far as its snapshot keeps them."""
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
    """Tasks that are over, in a hundred; None while nobody knows how many there are."""
    if run.ended is RunStatus.COMPLETED:
        return 100
    # Iterations of a loop come one by one: only what was planned is counted.
    planned = [record for name, record in run.tasks.items() if not name.endswith("]")]
    if not planned:
        return None
    return 100 * sum(record.state.is_finished for record in planned) // len(planned)


def _result(run: Run) -> Any:
    """Small ones only: a large one, or one that was not kept, is asked for at `/runs/{id}/result`."""
    if run.ended is not RunStatus.COMPLETED:
        return None
    found = results(run)
    if any(record.kept is not OutputKept.STORED for record in found.values()):
        return None
    outputs = {name: record.output for name, record in found.items()}
    return next(iter(outputs.values())) if len(outputs) == 1 else outputs or None


def _converted(body: bytes, headers: Mapping[str, str], kind: type[_Wanted]) -> _Wanted:
    _check_content_type(headers.get("content-type", ""))
    try:
        return msgspec.convert(parse(body), kind)
    except CanonicalJsonError as error:
        raise Malformed(f"The body is not JSON as we read it: {error}.") from None
    except msgspec.ValidationError as error:
        message = str(error)
        problem = {"loc": ["body"], "msg": message, "type": "value_error"}
        raise Invalid(f"The body is not valid: {message}.", details=[problem]) from None


def _check_content_type(given: str) -> None:
    kind = given.partition(";")[0].strip().lower()
    if (
        kind
        and kind != "application/json"
        and not (kind.startswith("application/") and kind.endswith("+json"))
    ):
        raise FrameworkRefusal(415, "Send JSON, with Content-Type: application/json.")
