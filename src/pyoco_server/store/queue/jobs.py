"""The work queue: encode and publish jobs, and count those that wait.

Each tag has a durable consumer; `job_puller` pulls from them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from pyoco_server.config import NatsBackendConfig
from pyoco_server.jetstream.api import STREAM_NOT_FOUND, JetStream
from pyoco_server.jetstream.client import BrokerClient
from pyoco_server.jetstream.errors import AnswerLost, BrokerRefused
from pyoco_server.jetstream.headers import header_block, traced
from pyoco_server.json_value import JsonObject
from pyoco_server.lifecycle.events import RunSubmitted
from pyoco_server.store import resources
from pyoco_server.store.queue.job_puller import JobPuller
from pyoco_server.store.runs.codec import UNREADABLE
from pyoco_server.store.runs.log import StoredRun

PUBLISH_TRIES_MAX = 3


class Job(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The message on the queue, appendix E. The members after `submitted_at` are extensions and optional."""

    run_id: str
    flow_name: str
    tag: str
    submitted_at: float
    params: JsonObject = {}
    tags: list[str] | None = None
    tenant_id: str | None = None
    api_key_id: str | None = None
    workflow_yaml: str | None = None
    workflow_yaml_sha256: str | None = None
    workflow_yaml_bytes: int | None = None
    correlation_id: str | None = None
    traceparent: str | None = None
    retry_of: str | None = None
    retry_from: str | None = None
    schedule_id: str | None = None
    expires_at: float | None = None
    batch_id: str | None = None


class UnreadableJob(ValueError):
    """A message of the queue is no job."""


_decode_job = msgspec.json.Decoder(Job).decode


class QueueState(NamedTuple):
    """How many jobs wait, and when the broker stored the next one; None: not known."""

    waiting: int
    next_stored_at: float | None


class TagQueue(NamedTuple):
    """Jobs of one tag that wait, that workers have, and of those the redelivered ones.

    `is_served`: a worker has asked for this tag at least once.
    """

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
        """`may_pull`: False while the log is missing, because a job can only be judged by the log."""
        self._client = client
        self._jetstream = jetstream
        self._config = config
        self._may_pull = may_pull

    async def publish(self, submission: RunSubmitted, stored: StoredRun) -> None:
        """Publish the job with the current number of the run. Publishing it twice leaves one message."""
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
        """The jobs of a tag that were never delivered; None if the tag has no consumer yet."""
        name, stream = f"{self._config.consumer_prefix}_{tag}", self._config.work_stream
        try:
            info = await self._jetstream.consumer_info(stream, name)
        except BrokerRefused:
            return None
        if not info.num_pending:
            return QueueState(0, None)
        subject, delivered = f"{self._config.work_subject_prefix}.{tag}", info.delivered.stream_seq
        first = await self._jetstream.next_at_leader(stream, subject, delivered)
        return QueueState(info.num_pending, first.stored_at if first is not None else None)

    async def depths(self, tags_max: int) -> dict[str, TagQueue]:
        """By tag, also for tags that no worker has asked for. If there are many, only the fullest ones."""
        stream, prefix = self._config.work_stream, self._config.work_subject_prefix + "."
        stored, consumers = await asyncio.gather(
            self._jetstream.subjects(stream, f"{prefix}>"),
            self._jetstream.consumers(stream),
        )
        queues = {subject: TagQueue(count, 0, 0, False) for subject, count in stored.items()}
        for consumer in consumers:
            subject = consumer.config.get("filter_subject", "")
            if subject.startswith(prefix):
                queues[subject] = TagQueue(
                    consumer.num_pending, consumer.num_ack_pending, consumer.num_redelivered, True
                )
        fullest = sorted(queues.items(), key=lambda queue: (-queue[1].waiting, queue[0]))[:tags_max]
        return {subject.removeprefix(prefix): queue for subject, queue in fullest}

    async def _ensure_consumer(self, tag: str) -> str:
        try:
            return await resources.ensure_consumer(self._jetstream, self._config, tag)
        except BrokerRefused as refused:
            if refused.code != STREAM_NOT_FOUND:
                raise
        # The stream was deleted. Housekeeping publishes its jobs again from the log.
        await resources.ensure(self._jetstream, self._config)
        return await resources.ensure_consumer(self._jetstream, self._config, tag)


def encode_job(submission: RunSubmitted, tags: Sequence[str]) -> bytes:
    return msgspec.json.encode(
        Job(
            run_id=submission.run_id,
            flow_name=submission.flow_name,
            tag=submission.tag,
            submitted_at=submission.at,
            params=submission.params,
            tags=list(tags),
            tenant_id=submission.tenant_id,
            api_key_id=submission.api_key_id,
            workflow_yaml=submission.workflow_yaml,
            workflow_yaml_sha256=submission.workflow_yaml_sha256,
            workflow_yaml_bytes=submission.workflow_yaml_bytes,
            correlation_id=submission.correlation_id,
            traceparent=submission.traceparent,
            retry_of=submission.retry_of,
            retry_from=submission.retry_from,
            schedule_id=submission.schedule_id,
            expires_at=submission.expires_at,
            batch_id=submission.batch_id,
        )
    )


def decode_job(data: bytes) -> Job:
    try:
        return _decode_job(data)
    except UNREADABLE as error:
        raise UnreadableJob(str(error)) from error


def submission_of(job: Job) -> RunSubmitted:
    """The event of which `encode_job` made this job, with the tags that the run had then."""
    return RunSubmitted(
        at=job.submitted_at,
        run_id=job.run_id,
        flow_name=job.flow_name,
        params=job.params,
        tag=job.tag,
        tags=[job.tag] if job.tags is None else job.tags,
        tenant_id=job.tenant_id,
        api_key_id=job.api_key_id,
        workflow_yaml=job.workflow_yaml,
        workflow_yaml_sha256=job.workflow_yaml_sha256,
        workflow_yaml_bytes=job.workflow_yaml_bytes,
        correlation_id=job.correlation_id,
        traceparent=job.traceparent,
        retry_of=job.retry_of,
        retry_from=job.retry_from,
        schedule_id=job.schedule_id,
        expires_at=job.expires_at,
        batch_id=job.batch_id,
    )
