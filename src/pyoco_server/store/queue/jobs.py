"""The work queue: publish a job, see what waits. A durable consumer per tag; `job_puller` takes from them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pyoco_server.config import NatsBackendConfig
from pyoco_server.jetstream.api import STREAM_NOT_FOUND, JetStream
from pyoco_server.jetstream.client import BrokerClient
from pyoco_server.jetstream.errors import AnswerLost, BrokerRefused
from pyoco_server.jetstream.headers import header_block, traced
from pyoco_server.lifecycle.events import RunSubmitted
from pyoco_server.store import resources
from pyoco_server.store.queue.job_puller import JobPuller
from pyoco_server.store.runs.codec import encode_job
from pyoco_server.store.runs.log import StoredRun

PUBLISH_TRIES_MAX = 3


class QueueState(NamedTuple):
    """How many jobs wait, and when the broker stored the one that is next; None: not known."""

    waiting: int
    next_stored_at: float | None


class TagQueue(NamedTuple):
    """Jobs of one tag: that wait, that a worker has, of those given out again; whether anybody ever asked."""

    waiting: int
    in_work: int
    redelivered: int
    is_served: bool


class JobQueue:
    def __init__(
        self,
        client: BrokerClient,
        jetstream: JetStream,
        config: NatsBackendConfig,
        may_pull: Callable[[], bool] = lambda: True,
    ) -> None:
        """`may_pull`: not while the log is missing, for no job could be judged by it."""
        self._client = client
        self._jetstream = jetstream
        self._config = config
        self._may_pull = may_pull

    async def publish(self, submission: RunSubmitted, stored: StoredRun) -> None:
        """The job of this run's current number. Publishing it twice leaves one."""
        run = stored.run
        subject = f"{self._config.work_subject_prefix}.{run.tag}"
        headers = header_block(
            Nats_Msg_Id=f"{run.run_id}.{run.job_no}",
            Pyoco_Job=run.job_no,
            Pyoco_Log_Seq=stored.log_seq,
            Pyoco_Snapshot_Revision=stored.revision,
            **({"Pyoco_Chain": stored.chain} if stored.chain else {}),
            **traced(run.correlation_id, run.traceparent),
        )
        payload = encode_job(submission, run.tags)
        for tries_left in reversed(range(PUBLISH_TRIES_MAX)):
            try:
                await self._jetstream.publish(subject, payload, headers)
                return
            except AnswerLost:
                if not tries_left:
                    raise

    async def pull(self, tags: Sequence[str]) -> JobPuller:
        subjects = {tag: f"{self._config.work_subject_prefix}.{tag}" for tag in tags}
        consumers = {subject: await self._ensure_consumer(tag) for tag, subject in subjects.items()}
        tags_by_subject = {subject: tag for tag, subject in subjects.items()}

        async def repair(subject: str) -> None:
            await self._ensure_consumer(tags_by_subject[subject])

        puller = JobPuller(self._client, self._config.work_stream, consumers, repair, self._may_pull)
        await puller.open()
        return puller

    async def state(self, tag: str) -> QueueState | None:
        """Jobs of a tag that were never delivered; None when the tag has no consumer yet."""
        name, stream = f"{self._config.consumer_prefix}_{tag}", self._config.work_stream
        try:
            info = await self._jetstream.api(f"CONSUMER.INFO.{stream}.{name}")
        except BrokerRefused:
            return None
        waiting = int(info["num_pending"])
        if not waiting:
            return QueueState(0, None)
        subject, delivered = f"{self._config.work_subject_prefix}.{tag}", int(info["delivered"]["stream_seq"])
        first = await self._jetstream.next_at_leader(stream, subject, delivered)
        return QueueState(waiting, first.stored_at if first is not None else None)

    async def depths(self, tags_max: int) -> dict[str, TagQueue]:
        """By tag, also of tags that no worker has ever asked for; of the fullest ones if there are many."""
        stream, prefix = self._config.work_stream, self._config.work_subject_prefix + "."
        stored, listed = await asyncio.gather(
            self._jetstream.subjects(stream, f"{prefix}>"),
            self._jetstream.api(f"CONSUMER.LIST.{stream}", {"offset": 0}),
        )
        queues = {subject: TagQueue(count, 0, 0, False) for subject, count in stored.items()}
        for consumer in listed.get("consumers") or ():
            subject = str(consumer["config"].get("filter_subject", ""))
            if subject.startswith(prefix):
                queues[subject] = TagQueue(
                    consumer["num_pending"], consumer["num_ack_pending"], consumer["num_redelivered"], True
                )
        fullest = sorted(queues.items(), key=lambda queue: (-queue[1].waiting, queue[0]))[:tags_max]
        return {subject.removeprefix(prefix): queue for subject, queue in fullest}

    async def _ensure_consumer(self, tag: str) -> str:
        try:
            return await resources.ensure_consumer(self._jetstream, self._config, tag)
        except BrokerRefused as refused:
            if refused.code != STREAM_NOT_FOUND:
                raise
        # Deleted under our feet. The jobs in it are owed by the log, and given again by housekeeping.
        await resources.ensure(self._jetstream, self._config)
        return await resources.ensure_consumer(self._jetstream, self._config, tag)
