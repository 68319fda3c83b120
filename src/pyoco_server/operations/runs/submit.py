"""Submit a run: first commit beside first snapshot, then the job, then the answer.

Whoever got a 200 has a run that exists and is queued. When the job cannot be published the run is
discarded by a commit; if a worker has claimed it meanwhile, the discard loses and the run lives.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from itertools import chain
from typing import Any

import msgspec
from msgspec.structs import replace

from pyoco_server import clock
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Conflict, Unavailable
from pyoco_server.ids import new_uuid
from pyoco_server.lifecycle.commands import DiscardRun
from pyoco_server.lifecycle.commit_meta import CommitMeta
from pyoco_server.lifecycle.events import RunSubmitted
from pyoco_server.lifecycle.status import Driver
from pyoco_server.names import check_routing_tag, check_run_id, check_tags
from pyoco_server.operations.runs.apply import apply
from pyoco_server.operations.runs.finish_submission import Carried, carry_on, go_on, is_of_another_try
from pyoco_server.operations.runs.params import check_params, invalid_member
from pyoco_server.printable import has_control
from pyoco_server.store.runs.log import Overtaken, StoredRun, new_commit_id
from pyoco_server.store.store import Store

log = logging.getLogger(__name__)

FLOW_NAME_CHARS_MAX = 256
DELAY_SEC_MAX = 366 * 86_400.0


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller wants to be run, in our words."""

    flow_name: str
    params: dict[str, Any] = {}
    tag: str | None = None
    tags: list[str] | None = None
    run_id: str | None = None
    tenant_id: str | None = None
    api_key_id: str | None = None
    correlation_id: str | None = None
    traceparent: str | None = None
    start_at: float | None = None
    workflow_yaml: str | None = None
    workflow_yaml_sha256: str | None = None
    workflow_yaml_bytes: int | None = None


async def submit(store: Store, wanted: Submission) -> StoredRun:
    return await begin(store, checked(wanted, store.config))


async def begin(
    store: Store,
    submission: RunSubmitted,
    carried: Iterable[Carried] = (),
    *,
    commit_id: str | None = None,
    meta: CommitMeta | None = None,
) -> StoredRun:
    """A run of this, stored and, if workers are to run it, queued. Conflict if one of its id exists.

    NoRoom while the broker runs out of storage.

    `carried`: results that it begins with, those of its first commit and then those of the next ones.
    With a `commit_id` the same may be asked again after an Unavailable and makes one run: so nothing is given
    up, and what an earlier try began is brought to its end.
    """
    store.room.check()
    commits = iter(carried)
    begins_with = next(commits, ())
    try:
        stored = await store.runs.create(submission, commit_id or new_commit_id(), begins_with, meta)
    except Overtaken as overtaken:
        raise Conflict(f"Run {submission.run_id} exists already.") from overtaken
    except Unavailable as error:
        if commit_id:
            raise
        return await _give_up(store, submission, error)
    if commit_id and is_of_another_try(stored, submission):
        return await go_on(store, stored, chain([begins_with], commits))
    try:
        for results in commits:
            stored = await carry_on(store, stored, results)
        if submission.start_at is not None or submission.driver is Driver.CLIENT:
            return stored  # its job is published when its time has come, or there is none
        # A job that says where its run stands says that the submission is all there is.
        job_of = stored if not stored.run.tasks else replace(stored, log_seq=0)
        await store.queue.publish(submission, job_of)
    except Unavailable as error:
        if commit_id:
            raise
        return await _give_up(store, submission, error)
    return stored


def checked(wanted: Submission, config: NatsBackendConfig) -> RunSubmitted:
    if not wanted.flow_name.strip() or len(wanted.flow_name) > FLOW_NAME_CHARS_MAX:
        raise invalid_member("flow_name", f"flow_name must have 1 to {FLOW_NAME_CHARS_MAX} characters.")
    if has_control(wanted.flow_name):
        raise invalid_member("flow_name", "flow_name may not have control characters or line breaks.")
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
        start_at=_checked_start(wanted.start_at, now),
        workflow_yaml=wanted.workflow_yaml,
        workflow_yaml_sha256=wanted.workflow_yaml_sha256,
        workflow_yaml_bytes=wanted.workflow_yaml_bytes,
    )


def _checked_start(start_at: float | None, now: float) -> float | None:
    """None for what may start now."""
    if start_at is None:
        return None
    if not start_at <= now + DELAY_SEC_MAX:
        raise invalid_member("start_at", "start_at is an instant in unix seconds, at most a year from now.")
    return start_at if start_at > now else None


async def _give_up(store: Store, submission: RunSubmitted, cause: Unavailable) -> StoredRun:
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
        return discarded.after  # a worker has it, or somebody cancelled it: it exists, and that is the truth
    raise cause
