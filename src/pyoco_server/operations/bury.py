"""A dead letter for a run that ended without a delivery in anybody's hands."""

from __future__ import annotations

import time

from pyoco_server.lifecycle.run import Run
from pyoco_server.store.codec import encode_job
from pyoco_server.store.dlq import DeadLetter, payload_text
from pyoco_server.store.store import Store


async def bury(store: Store, run: Run, reason: str) -> None:
    submission = await store.runs.submission(run.run_id)
    letter = DeadLetter(
        timestamp=time.time(),
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
    await store.dead_letters.publish(letter, letter_id=f"{run.run_id}.{reason}.{run.job_no}")
