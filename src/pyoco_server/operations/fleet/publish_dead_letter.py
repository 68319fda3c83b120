"""Publish a dead letter for a run that ended while no worker held a delivery of its job."""

from __future__ import annotations

from pyoco_server import clock
from pyoco_server.lifecycle.run import Run
from pyoco_server.store.queue.dead_letters import DeadLetter, payload_text
from pyoco_server.store.queue.jobs import encode_job
from pyoco_server.store.store import Store

MAX_DELIVER = "max_deliver"
EXECUTION_ERROR = "execution_error"
# Reasons of failed runs that are also reasons of letters. Any other failure is an execution error.
OWN_LETTERS = (MAX_DELIVER, "flow_not_found", "invalid_job")
# The end of a run has the time of the leader of the log, a letter that of the leader of its own stream.
CLOCKS_APART_SEC = 60.0


def letter_reason(run: Run) -> str:
    """The reason of the letter for a failed run."""
    return run.reason if run.reason in OWN_LETTERS else EXECUTION_ERROR


async def has_dead_letter(store: Store, run: Run, reason: str) -> bool:
    since = (run.ended_at or run.updated_at) - CLOCKS_APART_SEC
    return await store.dead_letters.has(run.run_id, reason, tag=run.tag, since=since)


async def publish_dead_letter(store: Store, run: Run, reason: str) -> bool:
    """Whether it was published. The message id prevents a second letter shortly after the first."""
    submission = await store.runs.submission(run.run_id)
    letter = DeadLetter(
        timestamp=clock.now(),
        reason=reason,
        error=run.error,
        run_id=run.run_id,
        flow_name=run.flow_name,
        tag=run.tag,
        tags=list(run.tags),
        worker_id=run.worker_id,
        num_delivered=run.losses,
        subject=f"{store.config.work_subject_prefix}.{run.tag}",
        payload=payload_text(encode_job(submission, run.tags)) if submission else None,
    )
    return await store.dead_letters.publish(letter, letter_id=f"{run.run_id}.{reason}.{run.job_no}")
