"""The wire format of the runs face: requests to submissions, runs and errors to JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Literal, TypeVar

import msgspec
from msgspec.structs import asdict, replace

from pyoco_server.canonical_json import CanonicalJsonError, check_members
from pyoco_server.errors import (
    Conflict,
    ErrorDetail,
    Invalid,
    PyocoError,
    problem_at,
)
from pyoco_server.http_api.middleware.tracing_headers import correlation_id_of, traceparent_of
from pyoco_server.http_api.responses.error_table import STATUSES, ErrorTable
from pyoco_server.json_value import JsonObject, JsonValue
from pyoco_server.lifecycle.run import Run, has_no_worker
from pyoco_server.lifecycle.snapshot import shown_of, summary_of
from pyoco_server.lifecycle.status import RunStatus
from pyoco_server.operations.identity.callers import Caller
from pyoco_server.operations.runs.retry import RetryRequest
from pyoco_server.operations.runs.submit import Submission
from pyoco_server.printable import lines
from pyoco_server.read_model.run_rows import WAITING
from pyoco_server.read_model.run_tally import Minute
from pyoco_server.store.runs.log import StoredRun
from pyoco_server.texts import Language, text

T = TypeVar("T")

_PLACES = (["body"], ["query"], ["path"], ["header"])
_PLACE = re.compile(r" - at `\$\.?(.*)`$")
_STEP = re.compile(r"[^.\[\]]+")
_MISSING = re.compile(r"missing required field `(\w+)`")


class WhatToRun(msgspec.Struct):
    flow_name: str
    params: JsonObject = {}
    tag: str | None = None
    tags: list[str] | None = None


class RunSubmitRequest(WhatToRun):
    start_at: float | None = None
    expires_at: float | None = None


class RunRetryRequest(msgspec.Struct):
    from_: Literal["failed", "start", "task"] = msgspec.field(name="from", default="failed")
    task: str | msgspec.UnsetType = msgspec.UNSET
    params: JsonObject | msgspec.UnsetType = msgspec.UNSET


_decode_submit = msgspec.json.Decoder(RunSubmitRequest).decode
_decode_retry = msgspec.json.Decoder(RunRetryRequest).decode


def submission(body: bytes, headers: Mapping[str, str], caller: Caller) -> Submission:
    asked = decoded(_decode_submit, body)
    plain = submission_of(asked, headers, caller)
    if asked.start_at is None and asked.expires_at is None:
        return plain
    return replace(plain, start_at=asked.start_at, expires_at=asked.expires_at)


def submission_of(asked: WhatToRun, headers: Mapping[str, str], caller: Caller) -> Submission:
    return Submission(
        flow_name=asked.flow_name,
        params=asked.params,
        tag=asked.tag,
        tags=asked.tags,
        tenant_id=caller.tenant_id,
        api_key_id=caller.api_key_id,
        correlation_id=correlation_id_of(headers),
        traceparent=traceparent_of(headers),
    )


def retry_asked(body: bytes, headers: Mapping[str, str]) -> RetryRequest:
    """The body and all its members are optional."""
    asked = decoded(_decode_retry, body if body.strip() else b"{}")
    if (asked.from_ == "task") is (asked.task is msgspec.UNSET):
        raise _task_and_from(asked)
    return RetryRequest(
        from_start=asked.from_ == "start",
        task=None if asked.task is msgspec.UNSET else asked.task,
        params=None if asked.params is msgspec.UNSET else asked.params,
        correlation_id=correlation_id_of(headers),
        traceparent=traceparent_of(headers),
    )


def accepted(stored: StoredRun) -> JsonObject:
    return {"run_id": stored.run.run_id, "status": RunStatus.PENDING}


def retried(stored: StoredRun) -> JsonObject:
    run = stored.run
    forked = {"retry_from": run.retry_from} if run.retry_from is not None else {}
    return accepted(stored) | {"retry_of": run.retry_of} | forked


def snapshot(stored: StoredRun, *, records: bool) -> JsonObject:
    """`task_records_truncated` is true if something that was requested is missing.

    Without `records` the member is left out, unless tasks are missing.
    """
    shown = asdict(shown_of(stored.run, records=records))
    del shown["pyoco"]
    shown["heartbeat_at"] = max(stored.run.updated_at, stored.heartbeat_at)
    for name in ("retry_of", "retry_from", "start_at", "expires_at", "schedule_id", "batch_id"):
        if (value := getattr(stored.run, name)) is not None:
            shown[name] = value
    if stored.run.cancel is not None and stored.run.cancel.reason is not None:
        shown["cancel_reason"] = stored.run.cancel.reason
    if has_no_worker(stored.run):
        shown["worker_alive"] = False
    if not records:
        del shown["task_records"]
        if not stored.run.tasks_dropped:
            del shown["task_records_truncated"]
    return shown


def tasks(stored: StoredRun) -> JsonObject:
    shown = snapshot(stored, records=True)
    members = ("run_id", "flow_name", "status", "tasks", "task_records", "task_records_truncated")
    return {name: shown[name] for name in members}


def summary(run: Run) -> object:
    """A run with a cancel request waits for no answer."""
    shown = summary_of(run)
    if not run.waits or run.cancel is not None:
        return shown
    return replace(shown, waiting_for=sorted({wait.key for wait in run.waits.values()}))


def counts(by_status: Mapping[str, int]) -> dict[str, int]:
    """Every status, also those with no run."""
    return {status.value: by_status.get(status.value, 0) for status in RunStatus}


def waiting(by_status: Mapping[str, int]) -> int:
    """How many of the RUNNING runs wait for an answer or an instant."""
    return by_status.get(WAITING, 0)


def minute(one: Minute) -> dict[str, int]:
    sums = one.sums
    return {
        "at": one.began_at,
        "submitted": sums.get("SUBMITTED", 0),
        "completed": sums.get("COMPLETED", 0),
        "failed": sums.get("FAILED", 0),
        "cancelled": sums.get("CANCELLED", 0),
    }


def cancel_reason(body: bytes) -> str | None:
    """The body and all its members are optional."""
    if not body.strip():
        return None
    asked: object = decoded(msgspec.json.decode, body)
    reason = asked.get("reason") if isinstance(asked, dict) else None
    return lines(reason[:1000]) if isinstance(reason, str) else None  # a bad reason refuses no cancel


def error_body(error: PyocoError, language: Language) -> JsonObject:
    detail: JsonValue = error.public_message
    if isinstance(error, Invalid) and isinstance(error.details, list):
        detail = [_placed(problem) for problem in error.details]
    body: JsonObject = {"detail": detail}
    if error.err_id:
        body["err_id"] = error.err_id
    if error.msg_id:
        body["msg_id"] = error.msg_id
    body["message"] = text(error.msg_id, language) if error.msg_id else error.public_message
    if isinstance(error, Conflict) and isinstance(error.details, dict):
        body |= error.details  # the current state, for programs
    return body


def decoded(decode: Callable[[bytes], T], body: bytes) -> T:
    try:
        asked = decode(body)
        check_members(body)  # the decoder accepts a repeated member
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, CanonicalJsonError) as error:
        raise _invalid_body(error) from error
    return asked


def _invalid_body(error: Exception) -> Invalid:
    """msgspec writes `Expected `str`, got `int` - at `$.flow_name``; here the place is a separate member."""
    message = str(error) or "the body is nested too deeply"
    place = _PLACE.search(message)
    missing = _MISSING.search(message)
    path = _STEP.findall(place.group(1)) if place else []
    if missing:
        path.append(missing.group(1))
    kind = (
        "missing"
        if missing
        else "value_error"
        if isinstance(error, msgspec.ValidationError)
        else "json_invalid"
    )
    problem = problem_at(["body", *path], _PLACE.sub("", message), kind)
    return Invalid("The body is not a valid submission.", details=[problem])


def _task_and_from(asked: RunRetryRequest) -> Invalid:
    missing = asked.task is msgspec.UNSET
    message = "'from: task' needs 'task', the name of one." if missing else "'task' goes with 'from: task'."
    return Invalid.at(["body", "task"], message, "missing" if missing else "value_error")


def _placed(problem: Mapping[str, object]) -> Mapping[str, object]:
    """Layers below name members only; the ones without a place came in the body."""
    given = problem.get("loc")
    loc = given if isinstance(given, list) else []
    return problem if loc[:1] in _PLACES else {**problem, "loc": ["body", *loc]}


def _problem_of(body: JsonObject) -> JsonObject:
    detail = body["detail"]
    detail = _sentence(detail) if isinstance(detail, list) else detail
    ids = {key: body[key] for key in ("err_id", "msg_id") if body.get(key)}
    return {"title": body["message"], "detail": detail} | ids


def _sentence(problems: list[ErrorDetail]) -> str:
    """`body.tag: must match …`, each problem with its place."""
    return "; ".join(f"{_place_of(one)}: {one['msg']}" for one in problems)


def _place_of(problem: ErrorDetail) -> str:
    place = ".".join(map(str, problem["loc"]))
    return f"{place}, line {problem['line']}, column {problem['column']}" if "line" in problem else place


ERRORS = ErrorTable(STATUSES, error_body, _problem_of)
