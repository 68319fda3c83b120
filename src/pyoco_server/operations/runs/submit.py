"""Submit a run: validate, decide, store the first commit and the first snapshot, publish the job.

`submit` returns after the job is published: a caller that gets a 200 has a run that exists and is queued.
When the job cannot be published, the run is discarded by a commit. If a worker has claimed the run meanwhile,
the discard is refused and the run continues.

With a `commit_id` a submission can be repeated. An earlier try may have stopped after any step. Then the log
decides, not what this try would have written: `submit` reads it and does the steps that are missing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from itertools import chain

import msgspec
from msgspec.structs import replace

from pyoco_server import clock
from pyoco_server.canonical_json import DEPTH_MAX
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Conflict, Invalid, TooLarge, Unavailable
from pyoco_server.ids import new_uuid
from pyoco_server.json_value import JsonObject
from pyoco_server.lifecycle.commands import CarryResults, DiscardRun, SubmitRun
from pyoco_server.lifecycle.commit_meta import CommitMeta
from pyoco_server.lifecycle.decide import Refused, decide
from pyoco_server.lifecycle.events import RunSubmitted, TaskStarted, TaskSucceeded
from pyoco_server.lifecycle.run import Run, is_delayed, owes_job
from pyoco_server.lifecycle.status import Driver, TaskStatus
from pyoco_server.names import check_routing_tag, check_run_id, check_tags
from pyoco_server.operations.runs.apply import Reading, apply
from pyoco_server.printable import has_control
from pyoco_server.store.runs.log import Overtaken, StoredRun, new_commit_id
from pyoco_server.store.store import Store

log = logging.getLogger(__name__)

FLOW_NAME_CHARS_MAX = 256
DELAY_SEC_MAX = 366 * 86_400.0

# Results of an earlier run that a new run starts with.
Carried = Sequence[TaskStarted | TaskSucceeded]


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """The request of a caller, not validated yet."""

    flow_name: str
    params: JsonObject = {}
    tag: str | None = None
    tags: list[str] | None = None
    run_id: str | None = None
    tenant_id: str | None = None
    api_key_id: str | None = None
    correlation_id: str | None = None
    traceparent: str | None = None
    start_at: float | None = None
    expires_at: float | None = None
    workflow_yaml: str | None = None
    workflow_yaml_sha256: str | None = None
    workflow_yaml_bytes: int | None = None


async def submit(
    store: Store,
    wanted: Submission | RunSubmitted,
    carried: Iterable[Carried] = (),
    *,
    commit_id: str | None = None,
    meta: CommitMeta | None = None,
) -> StoredRun:
    """Store a run and, if workers execute it, publish its job. Conflict if a run with its id exists.

    NoRoom while the broker runs out of storage. `wanted`: a submission, or the result of `validate`.
    `carried`: results that the run starts with: those in its first commit, then those of each further commit.
    With a `commit_id` the caller can repeat the submission after an Unavailable, and gets one run. So such a
    run is not discarded, and steps that an earlier try left undone are done.
    """
    submission = validate(wanted, store.config) if isinstance(wanted, Submission) else wanted
    store.room.check()
    try:
        return await _submit(store, submission, carried, commit_id, meta)
    except Unavailable as error:
        if commit_id:
            raise
        return await _discard(store, submission, error)


async def resume(store: Store, run_id: str) -> StoredRun | None:
    """The run that an earlier try of a request submitted under its reserved id, now queued; None: no run.

    For a request whose effect can no longer be prepared: what it referred to has been deleted meanwhile.
    """
    stored = await store.runs.load_confirmed(run_id)
    return None if stored is None else await _resume(store, stored, ())


def validate(wanted: Submission, config: NatsBackendConfig) -> RunSubmitted:
    if not wanted.flow_name.strip() or len(wanted.flow_name) > FLOW_NAME_CHARS_MAX:
        raise Invalid.at(["flow_name"], f"flow_name must have 1 to {FLOW_NAME_CHARS_MAX} characters.")
    if has_control(wanted.flow_name):
        raise Invalid.at(["flow_name"], "flow_name may not have control characters or line breaks.")
    tag = check_routing_tag(config.default_tag if wanted.tag is None else wanted.tag)
    tags = [tag] if wanted.tags is None else check_tags(wanted.tags)
    check_params(wanted.params, config)
    now = clock.now()
    return RunSubmitted(
        at=now,
        run_id=check_run_id(wanted.run_id) if wanted.run_id else new_uuid(),
        flow_name=wanted.flow_name,
        params=wanted.params,
        tag=tag,
        tags=tags,
        tenant_id=wanted.tenant_id,
        api_key_id=wanted.api_key_id,
        correlation_id=wanted.correlation_id,
        traceparent=wanted.traceparent,
        start_at=_validate_start(wanted.start_at, now),
        expires_at=_validate_expiry(wanted.expires_at, wanted.start_at, now),
        workflow_yaml=wanted.workflow_yaml,
        workflow_yaml_sha256=wanted.workflow_yaml_sha256,
        workflow_yaml_bytes=wanted.workflow_yaml_bytes,
    )


def check_params(params: dict[str, object], config: NatsBackendConfig) -> None:
    encoded = _encoded(params)
    size = len(encoded)
    if _is_nested_too_deeply(encoded, params):
        raise Invalid.at(["params"], f"params are nested deeper than {DEPTH_MAX} levels.")
    if size > config.params_max_bytes:
        raise TooLarge(
            f"params have {size} bytes; at most {config.params_max_bytes} are accepted. "
            "Store the data elsewhere and pass its address.",
            err_id="ERR-PYOCO-0002",
        )


def _encoded(params: dict[str, object]) -> bytes:
    try:
        return msgspec.json.encode(params)
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise Invalid.at(["params"], f"params must be JSON: {error}.") from error


def _is_nested_too_deeply(encoded: bytes, params: dict[str, object]) -> bool:
    """Deeper values can be encoded here, but not deeper in the call stack elsewhere."""
    if encoded.count(b"[") + encoded.count(b"{") <= DEPTH_MAX:
        return False  # the usual case: nothing to measure
    level: list[JsonObject | list[object]] = [params]
    for _ in range(DEPTH_MAX):
        within = (outer.values() if isinstance(outer, dict) else outer for outer in level)
        level = [inner for values in within for inner in values if isinstance(inner, dict | list)]
        if not level:
            return False
    return True


def _validate_start(start_at: float | None, now: float) -> float | None:
    """None if the run can start now."""
    if start_at is None:
        return None
    if not start_at <= now + DELAY_SEC_MAX:
        raise Invalid.at(["start_at"], "start_at is an instant in unix seconds, at most a year from now.")
    return start_at if start_at > now else None


def _validate_expiry(expires_at: float | None, start_at: float | None, now: float) -> float | None:
    """An instant in the past is accepted, because a request may come late: its run ends without a start."""
    if expires_at is None:
        return None
    if not 0 <= expires_at <= now + DELAY_SEC_MAX:
        raise Invalid.at(["expires_at"], "expires_at is an instant in unix seconds, at most a year from now.")
    if start_at is not None and expires_at <= start_at:
        raise Invalid.at(["expires_at"], "expires_at must be later than start_at.")
    return expires_at


async def _submit(
    store: Store,
    submission: RunSubmitted,
    carried: Iterable[Carried],
    commit_id: str | None,
    meta: CommitMeta | None,
) -> StoredRun:
    batches = iter(carried)
    first = next(batches, ())
    stored = await _create(store, submission, first, commit_id or new_commit_id(), meta)
    if commit_id and _is_of_earlier_try(stored, submission):
        return await _resume(store, stored, chain([first], batches))
    for results in batches:
        stored = await _carry_results(store, stored, results)
    if submission.start_at is not None or submission.driver is Driver.CLIENT:
        return stored  # the job is published at `start_at`; a client-driven run has no job
    # A job with a log position tells the worker that the submission is the only event up to there.
    job_of = stored if not stored.run.tasks else replace(stored, log_seq=0)
    await store.queue.publish(submission, job_of)
    return stored


async def _create(
    store: Store, submission: RunSubmitted, results: Carried, commit_id: str, meta: CommitMeta | None
) -> StoredRun:
    # Decided on no run: if there is one, the log refuses the first commit. So no read is needed.
    decided = decide(None, SubmitRun(submission=submission, results=list(results)), submission.at)
    assert not isinstance(decided, Refused), "a run that does not exist can be submitted"
    submitted, *more = decided
    assert isinstance(submitted, RunSubmitted)
    try:
        return await store.runs.create(submitted, commit_id, more, meta)
    except Overtaken as overtaken:
        raise Conflict(f"Run {submission.run_id} exists already.") from overtaken


async def _carry_results(store: Store, stored: StoredRun, results: Carried) -> StoredRun:
    """Refused if the run is claimed or cancelled. Then the worker executes these tasks, or nothing does."""
    command = CarryResults(results=list(results))
    applied = await apply(store, stored.run.run_id, command, reading=Reading(held=stored))
    return applied.after or stored


def _is_of_earlier_try(stored: StoredRun, submission: RunSubmitted) -> bool:
    return stored.commits > 1 or stored.run.submitted_at != submission.at


async def _resume(store: Store, stored: StoredRun, carried: Iterable[Carried]) -> StoredRun:
    """Do the steps that an earlier try of this submission left undone."""
    stored = await store.runs.snapshots.project(stored)
    for results in carried:
        if missing := [event for event in results if not _has(stored.run, event)]:
            stored = await _carry_results(store, stored, missing)
    if stored.run.job_no == 1 and owes_job(stored.run) and not is_delayed(stored.run):
        first = await store.runs.submission(stored.run.run_id)
        assert first is not None, "a run that owes a job has begun"
        # The run may have changed since it was read: the job carries no log position, so the worker reads.
        await store.queue.publish(first, replace(stored, log_seq=0))
    return stored


def _has(run: Run, event: TaskStarted | TaskSucceeded) -> bool:
    known = run.tasks.get(event.task)
    if isinstance(event, TaskStarted):
        return known is not None
    return known is not None and known.state is TaskStatus.SUCCEEDED


async def _discard(store: Store, submission: RunSubmitted, cause: Unavailable) -> StoredRun:
    run_id = submission.run_id
    try:
        discarded = await apply(store, run_id, DiscardRun(reason=cause.public_message))
    except Unavailable as error:
        fields = {"run_id": run_id, "flow_name": submission.flow_name, "tag": submission.tag}
        fields |= {"err_id": "ERR-PYOCO-0004", "msg_id": "MSG-PYOCO-0004", "reason": cause.message}
        log.error("a run may have been left behind", exc_info=error, extra=fields)
        raise Unavailable(
            f"The broker cannot be reached; run {run_id} may or may not have been accepted. "
            "Look for it before you submit again.",
            details={"run_id": run_id},
        ) from cause
    if discarded.refused is not None and discarded.after is not None and not discarded.after.run.gone:
        return discarded.after  # a worker has claimed it, or it was cancelled: the run exists
    raise cause
