"""All streams and buckets as data. Missing ones are created; existing ones are not changed (REQ-0007).

The event log is the source of truth. It is not created if there are runs that had one: with an empty log
every run would be unknown, and workers would remove their jobs from the queue. `resource_checks` decides
which settings of existing streams are refused.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection

from nats.js import JetStreamContext

from pyoco_server.config import NatsBackendConfig
from pyoco_server.jetstream.api import NANOSECONDS, STREAM_NOT_FOUND, JetStream
from pyoco_server.jetstream.descriptions import ConsumerSettings, StreamSettings
from pyoco_server.jetstream.errors import (
    AnswerLost,
    BrokerRefused,
    BrokerTooOld,
    LogLost,
    StreamDoesNotFit,
    StreamsSilent,
)
from pyoco_server.jetstream.requests import Reply
from pyoco_server.store.resource_checks import ProblemLevel, StreamProblem, problems
from pyoco_server.store.runs.codec import decode_snapshot

log = logging.getLogger(__name__)

NAME_IN_USE = 10058
CONSUMER_NOT_FOUND = 10014
CONSUMER_EXISTS = 10148
NO_STORAGE = 10047
LEAST_BYTES = 16 * 2**20
OLDEST_BROKER = (2, 14)
# Refusals explain the state of a run. They are not part of its history.
REFUSED_PER_RUN_MAX = 20
REFUSED_KEPT_SEC = 7 * 86_400.0
REFUSED_MAX = 1_000_000
BATCH_KEPT_SEC = 30 * 86_400.0
# What happened to the occurrences of a schedule: the latest entries of each.
OCCURRENCES_PER_SCHEDULE_MAX = 1_000
OCCURRENCES_KEPT_SEC = 366 * 86_400.0


def streams(config: NatsBackendConfig) -> list[StreamSettings]:
    return [
        {
            "name": config.events_stream,
            "subjects": [f"{config.events_subject_prefix}.*"],
            "retention": "limits",
            "allow_direct": True,
            "allow_rollup_hdrs": True,
            "allow_msg_ttl": True,
            "republish": {
                "src": f"{config.events_subject_prefix}.*",
                "dest": f"{config.live_subject_prefix}.{{{{wildcard(1)}}}}",
            },
        },
        {
            "name": config.work_stream,
            "subjects": [f"{config.work_subject_prefix}.>"],
            "retention": "workqueue",
            "duplicate_window": 120 * NANOSECONDS,
        },
        {
            "name": config.dlq_stream,
            "subjects": [f"{config.dlq_subject_prefix}.>"],
            "retention": "limits",
            "max_age": int(config.dlq_max_age_sec * NANOSECONDS),
            "max_msgs": config.dlq_max_msgs,
            "max_bytes": config.dlq_max_bytes,
            "allow_direct": True,
        },
        {
            "name": config.logs_stream,
            "subjects": [f"{config.logs_subject_prefix}.*"],
            "retention": "limits",
            "max_age": int(config.log_max_age_sec * NANOSECONDS),
            "max_bytes": config.log_max_bytes,
            "compression": "s2",
            "allow_direct": True,
            "allow_rollup_hdrs": True,
            "allow_msg_ttl": True,
            "republish": {
                "src": f"{config.logs_subject_prefix}.*",
                "dest": f"{config.live_logs_subject_prefix}.{{{{wildcard(1)}}}}",
            },
        },
        *_histories(config),
        *_buckets(config),
    ]


def consumer(config: NatsBackendConfig, tag: str) -> ConsumerSettings:
    """The durable consumer of one tag."""
    return {
        "durable_name": f"{config.consumer_prefix}_{tag}",
        "filter_subject": f"{config.work_subject_prefix}.{tag}",
        "ack_policy": "explicit",
        "deliver_policy": "all",
        "ack_wait": int(config.consumer_ack_wait_sec * NANOSECONDS),
        "max_deliver": config.consumer_max_deliver,
        "max_ack_pending": config.consumer_max_ack_pending,
        "max_waiting": 512,
    }


async def ensure_resources(js: JetStreamContext, config: NatsBackendConfig) -> None:
    """Create missing streams and buckets, for programs with a nats-py connection of their own."""
    await ensure(JetStream(_OverNatsPy(js)), config)


async def ensure(
    jetstream: JetStream, config: NatsBackendConfig, created: list[str] | None = None
) -> list[StreamProblem]:
    """Create missing streams. Returns the problems of existing ones that can still be used.

    `created` gets the names of the streams that were missing, also if the check of another one failed.
    Raises StreamsSilent at the end for streams that exist and do not answer: only requests to them must wait.
    """
    wanted = [_kept(one, config) for one in streams(config)]
    found = await asyncio.gather(*(_settings_if_answered(jetstream, one["name"]) for one in wanted))
    warnings: list[StreamProblem] = []
    missing, silent = [], []
    for existing, one in zip(found, wanted, strict=True):
        if existing is None:
            missing.append(one)
        elif isinstance(existing, AnswerLost):
            silent.append(one["name"])
        else:
            warnings += _check(existing, one, config)
    if silent:
        await _check_existence(jetstream, config, silent)
    if any(one["name"] == config.events_stream for one in missing):
        await _check_no_log_is_lost(jetstream, config)
    await asyncio.gather(*(_create_if_missing(jetstream, one) for one in missing))
    if created is not None:
        created += [one["name"] for one in missing]
    if silent:
        raise StreamsSilent(silent)
    return warnings


async def accept_lost_log(jetstream: JetStream, config: NatsBackendConfig) -> bool:
    """Create an empty event log on purpose after the log was lost. False: there is a log."""
    wanted = next(one for one in streams(config) if one["name"] == config.events_stream)
    return await _ensure_stream(jetstream, _kept(wanted, config), config)


async def _check_no_log_is_lost(jetstream: JetStream, config: NatsBackendConfig) -> None:
    if not await _has_runs_of_ours(jetstream, config):
        return
    if await _settings(jetstream, config.events_stream) is None:  # else another process has just created it
        raise LogLost(config.events_stream)


async def _has_runs_of_ours(jetstream: JetStream, config: NatsBackendConfig) -> bool:
    """Whether there is data that is only written beside a log. Runs of an upstream server have none."""
    logs, results = config.logs_stream, f"OBJ_{config.results_object_bucket}"
    used = await asyncio.gather(*(_was_written(jetstream, stream) for stream in (logs, results)))
    return any(used) or await _has_snapshot_of_ours(jetstream, config)


async def _was_written(jetstream: JetStream, stream: str) -> bool:
    try:
        return await jetstream.last_seq(stream) > 0
    except BrokerRefused as refused:
        if refused.code != STREAM_NOT_FOUND:
            raise
        return False


async def _has_snapshot_of_ours(jetstream: JetStream, config: NatsBackendConfig) -> bool:
    """Check the first and the last one. Marks of deletions do not stay at either end for long."""
    stream, keys = f"KV_{config.runs_kv_bucket}", f"$KV.{config.runs_kv_bucket}.>"
    try:
        found = await asyncio.gather(
            jetstream.last_at_leader(stream, keys), jetstream.next_at_leader(stream, keys, 0)
        )
    except BrokerRefused as refused:
        if refused.code != STREAM_NOT_FOUND:
            raise
        return False
    snapshots = (decode_snapshot(one.data) for one in found if one is not None and one.data)
    return any(snapshot is not None and snapshot.pyoco.commits > 0 for snapshot in snapshots)


async def ensure_snapshots(jetstream: JetStream, config: NatsBackendConfig) -> bool:
    """Create the bucket of the snapshots if it is missing. Returns whether this call created it."""
    return await _ensure_stream(jetstream, _kept(_bucket(config.runs_kv_bucket), config), config)


def _kept(wanted: StreamSettings, config: NatsBackendConfig) -> StreamSettings:
    return {"storage": "file", "num_replicas": config.nats_replicas, **wanted}


async def ensure_consumer(jetstream: JetStream, config: NatsBackendConfig, tag: str) -> str:
    """Create the consumer if it is missing, and return its name. An existing one keeps its settings."""
    wanted = consumer(config, tag)
    name = wanted["durable_name"]
    try:
        await jetstream.consumer_info(config.work_stream, name)
    except BrokerRefused as refused:
        if refused.code != CONSUMER_NOT_FOUND:
            raise
        await _create_consumer(jetstream, config.work_stream, name, wanted | {"name": name})
    return name


def check_broker_version(version: str) -> None:
    parts = tuple(int(part) for part in version.removeprefix("v").split("-")[0].split(".")[:2])
    if parts < OLDEST_BROKER:
        oldest = ".".join(map(str, OLDEST_BROKER))
        raise BrokerTooOld(f"nats-server {version} is too old. Run nats-server {oldest} or newer.")


class _OverNatsPy:
    """The requests that `ensure` needs, over nats-py."""

    def __init__(self, js: JetStreamContext) -> None:
        self._client = js._nc

    async def ask(self, subject: str, payload: bytes = b"", headers: bytes = b"") -> Reply:
        assert not headers
        message = await self._client.request(subject, payload, timeout=5.0)
        return Reply(b"", message.data)

    async def ask_for_many(self, subject: str, payload: bytes) -> list[Reply]:
        raise NotImplementedError("creating resources needs single answers only")

    async def send(self, subject: str, payload: bytes, headers: bytes = b"") -> list[Reply]:
        return [await self.ask(subject, payload, headers)]


def _histories(config: NatsBackendConfig) -> list[StreamSettings]:
    return [
        {
            "name": config.refused_stream,
            "subjects": [f"{config.refused_subject_prefix}.*"],
            "retention": "limits",
            "max_msgs_per_subject": REFUSED_PER_RUN_MAX,
            "max_age": int(REFUSED_KEPT_SEC * NANOSECONDS),
            "max_msgs": REFUSED_MAX,
            "allow_direct": True,
        },
        {
            "name": config.occurrences_stream,
            "subjects": [f"{config.occurrences_subject_prefix}.*"],
            "retention": "limits",
            "max_msgs_per_subject": OCCURRENCES_PER_SCHEDULE_MAX,
            "max_age": int(OCCURRENCES_KEPT_SEC * NANOSECONDS),
            "allow_direct": True,
        },
    ]


def _buckets(config: NatsBackendConfig) -> list[StreamSettings]:
    return [
        _bucket(config.runs_kv_bucket),
        _bucket(config.workers_kv_bucket),
        _bucket(config.auth_kv_bucket),
        _bucket(config.leases_kv_bucket) | {"allow_msg_ttl": True},
        _bucket(config.schedules_kv_bucket) | {"allow_msg_ttl": True},
        _bucket(config.batches_kv_bucket) | {"max_age": int(BATCH_KEPT_SEC * NANOSECONDS)},
        _bucket(config.graphs_kv_bucket),
        _bucket(config.idempotency_kv_bucket)
        | {
            "allow_msg_ttl": True,
            # Waiting requests are notified when a record is stored; they read its value at the leader.
            "republish": {
                "src": f"$KV.{config.idempotency_kv_bucket}.*.*",
                "dest": f"{config.idempotency_subject_prefix}.{{{{wildcard(1)}}}}.{{{{wildcard(2)}}}}",
                "headers_only": True,
            },
        },
        # As long as a letter: a dismissal is never older than its letter.
        _bucket(config.dismissals_kv_bucket) | {"max_age": int(config.dlq_max_age_sec * NANOSECONDS)},
        _bucket(config.wheel_history_kv_bucket)
        | {"max_age": int(config.wheel_history_ttl_sec * NANOSECONDS)},
        _object_bucket(config.results_object_bucket),
        _object_bucket(config.wheel_object_store_bucket),
        _bucket(config.rechecks_kv_bucket) | {"allow_msg_ttl": True},
        # Request counts of the last minute need no disk.
        _bucket(config.limits_kv_bucket) | {"allow_msg_ttl": True, "storage": "memory"},
        _object_bucket(config.artifacts_object_bucket)
        | {"max_age": int(config.recheck_kept_sec * NANOSECONDS)},
    ]


def _bucket(name: str) -> StreamSettings:
    """A key-value bucket of nats clients, with history 1."""
    return {
        "name": f"KV_{name}",
        "subjects": [f"$KV.{name}.>"],
        "retention": "limits",
        "max_msgs_per_subject": 1,
        "discard": "new",
        "allow_rollup_hdrs": True,
        "deny_delete": True,
        "allow_direct": True,
        "duplicate_window": 120 * NANOSECONDS,
    }


def _object_bucket(name: str) -> StreamSettings:
    """An object store of nats clients."""
    return {
        "name": f"OBJ_{name}",
        "subjects": [f"$O.{name}.C.>", f"$O.{name}.M.>"],
        "retention": "limits",
        "discard": "new",
        "allow_rollup_hdrs": True,
        "allow_direct": True,
    }


async def _create_consumer(jetstream: JetStream, stream: str, name: str, wanted: ConsumerSettings) -> None:
    try:
        await jetstream.create_consumer(stream, f"{name}.{wanted['filter_subject']}", wanted)
        log.info("consumer created", extra={"consumer": name})
    except BrokerRefused as refused:
        # Another worker that started at the same time created it. Its settings remain.
        if refused.code != CONSUMER_EXISTS:
            raise


async def _ensure_stream(jetstream: JetStream, wanted: StreamSettings, config: NatsBackendConfig) -> bool:
    """Whether this call created it."""
    existing = await _settings(jetstream, wanted["name"])
    if existing is not None:
        _check(existing, wanted, config)
        return False
    return await _create_if_missing(jetstream, wanted)


async def _settings(jetstream: JetStream, name: str) -> StreamSettings | None:
    try:
        return (await jetstream.stream_info(name)).config
    except BrokerRefused as refused:
        if refused.code != STREAM_NOT_FOUND:
            raise
        return None


async def _settings_if_answered(jetstream: JetStream, name: str) -> StreamSettings | AnswerLost | None:
    try:
        return await _settings(jetstream, name)
    except AnswerLost as silence:
        return silence


async def _check_existence(jetstream: JetStream, config: NatsBackendConfig, silent: Collection[str]) -> None:
    """The list of streams also has those without a leader. The event log itself must have answered."""
    names = set[str]()
    while page := await jetstream.stream_names(len(names)):
        names.update(page)
    if unknown := set(silent) - (names - {config.events_stream}):
        raise AnswerLost(f"$JS.API.STREAM.INFO.{min(unknown)}")


async def _create_if_missing(jetstream: JetStream, wanted: StreamSettings) -> bool:
    try:
        await _create_stream(jetstream, wanted)
    except BrokerRefused as refused:
        # Another process that started at the same time created it.
        if refused.code != NAME_IN_USE:
            raise
        return False
    log.info("stream created", extra={"stream": wanted["name"]})
    return True


async def _create_stream(jetstream: JetStream, wanted: StreamSettings) -> None:
    """The broker reserves `max_bytes` at once. On a small disk it is halved until the stream fits."""
    while True:
        try:
            await jetstream.create_stream(wanted)
            return
        except BrokerRefused as refused:
            room = wanted.get("max_bytes", 0) // 2
            if refused.code != NO_STORAGE or room < LEAST_BYTES:
                raise
            fields = {"stream": wanted["name"], "max_bytes": room}
            log.warning("no room for as much as configured; keeping less", extra=fields)
            wanted = wanted | {"max_bytes": room}


def _check(
    existing: StreamSettings, wanted: StreamSettings, config: NatsBackendConfig
) -> list[StreamProblem]:
    """The problems that deserve a warning. Raises StreamDoesNotFit for a stream that cannot be used."""
    found = list(problems(existing, wanted, is_log=wanted["name"] == config.events_stream))
    for problem in found:
        if problem.level is ProblemLevel.FATAL:
            raise StreamDoesNotFit(problem.what, problem.public)
    return found
