"""What is no job is terminated and kept as a dead letter; the run it speaks of, if any, ends FAILED."""

from __future__ import annotations

import json
import uuid
from typing import Any

import msgspec
import nats
import pytest

from pyoco_server.store.store import Store
from tests.worker.stage import (
    Flows,
    ended_as,
    expect_alive,
    foreign_job,
    letters,
    publish_job,
    queue_drained,
    submitted,
    the_letter,
    working,
)

NOT_JSON = [b"", b"\x00\xff\xfe garbage", b"{", b'"text"', b"[]", b"null", b"7", b'{"run_id": "\xff"}']


@pytest.mark.parametrize("data", NOT_JSON, ids=repr)
async def test_bytes_that_are_no_job_are_terminated_with_a_letter(store: Store, data: bytes) -> None:
    async with working(store.config, worker_id="w1") as worker:
        await publish_job(store, data)
        assert await worker.run_once(timeout=20.0) is None
        await queue_drained(store)
        letter = await the_letter(store)
        assert letter["reason"] == "invalid_job"
        assert letter["error"]
        assert letter["payload"] == data.decode("utf-8", "replace")
        assert letter["subject"] == f"{store.config.work_subject_prefix}.default"
        assert letter["at"] == f"{store.config.dlq_subject_prefix}.default"
        assert (letter["worker_id"], letter["num_delivered"], letter["tag"]) == ("w1", 1, "default")
        await expect_alive(store, worker)


async def test_the_broker_is_told_to_terminate_an_invalid_job_and_no_other(store: Store) -> None:
    config = store.config
    broker = await nats.connect(config.nats_servers)
    told = await broker.subscribe(f"$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.{config.work_stream}.>")
    await broker.flush()
    async with working(config, Flows()) as worker:
        await submitted(store, "nobody_has_it")
        await worker.run_once(timeout=20.0)
        await publish_job(store, b"no job")
        await worker.run_once(timeout=20.0)
        advisory = json.loads((await told.next_msg(timeout=10)).data)
        await queue_drained(store)
    assert (advisory["consumer"], advisory["stream_seq"]) == (f"{config.consumer_prefix}_default", 2)
    assert told.pending_msgs == 0
    await broker.close()


WRONG_MEMBERS: dict[str, dict[str, Any]] = {
    "params a list": {"params": [1]},
    "params null": {"params": None},
    "run_id a number": {"run_id": 7},
    "run_id with a wildcard": {"run_id": "a.*"},
    "run_id empty": {"run_id": ""},
    "flow_name a number": {"flow_name": 1},
    "flow_name empty": {"flow_name": "  "},
    "tag with a dot": {"tag": "a.b"},
    "tag a list": {"tag": ["default"]},
    "tags a string": {"tags": "default"},
    "submitted_at a text": {"submitted_at": "now"},
}


@pytest.mark.parametrize("changes", WRONG_MEMBERS.values(), ids=WRONG_MEMBERS)
async def test_wrong_types_are_an_invalid_job_that_begins_no_run(
    store: Store, changes: dict[str, Any]
) -> None:
    flows = Flows()
    async with working(store.config, flows) as worker:
        job = foreign_job() | changes
        await publish_job(store, job)
        await worker.run_once(timeout=20.0)
        await queue_drained(store)
        letter = await the_letter(store)
        assert letter["reason"] == "invalid_job"
        assert msgspec.json.decode(letter["payload"]) == job
        assert flows.asked == []
        await expect_alive(store, worker)


@pytest.mark.parametrize("missing", ["run_id", "flow_name", "tag", "submitted_at"])
async def test_a_job_without_a_required_member_is_an_invalid_job(store: Store, missing: str) -> None:
    job = foreign_job()
    del job[missing]
    async with working(store.config) as worker:
        await publish_job(store, job)
        await worker.run_once(timeout=20.0)
        await queue_drained(store)
        assert (await the_letter(store))["reason"] == "invalid_job"
        await expect_alive(store, worker)


@pytest.mark.parametrize("levels", [500, 900, 920, 940, 960, 980, 20_000])
async def test_a_job_nested_deeply_is_executed_or_invalid_but_never_comes_back(
    store: Store, levels: int
) -> None:
    head = b'{"run_id":"%s","flow_name":"noop","tag":"default","submitted_at":1,"params":{"a":'
    data = head % str(uuid.uuid4()).encode() + b"[" * levels + b"]" * levels + b"}}"
    async with working(store.config) as worker:
        await publish_job(store, data)
        await worker.run_once(timeout=20.0)
        await queue_drained(store)
        if levels > 1000:
            assert (await the_letter(store))["reason"] == "invalid_job"
        await expect_alive(store, worker)


async def test_an_invalid_job_of_a_run_that_exists_ends_it_failed(store: Store) -> None:
    run_id = await submitted(store)
    await store.jetstream.api(f"STREAM.PURGE.{store.config.work_stream}")
    async with working(store.config) as worker:
        await publish_job(store, foreign_job(run_id, params=[1]))
        await worker.run_once(timeout=20.0)
        await queue_drained(store)
        failed = await ended_as(store, run_id, "FAILED")
        assert failed.pyoco.reason == "invalid_job"
        assert (failed.error or "").startswith("invalid_job: ")
        letter = await the_letter(store)
        assert (letter["run_id"], letter["reason"]) == (run_id, "invalid_job")
        await expect_alive(store, worker)


async def test_an_invalid_job_does_not_change_how_a_run_has_ended(store: Store) -> None:
    run_id = await submitted(store)
    async with working(store.config) as worker:
        assert await worker.run_once(timeout=20.0) == run_id
        await publish_job(store, foreign_job(run_id, params=[1]))
        await worker.run_once(timeout=20.0)
        await queue_drained(store)
        await ended_as(store, run_id, "COMPLETED")
        assert (await the_letter(store))["reason"] == "invalid_job"


async def test_every_invalid_job_has_a_letter_of_its_own(store: Store) -> None:
    run_id = str(uuid.uuid4())
    async with working(store.config) as worker:
        for params in ([1], [2]):
            await publish_job(store, foreign_job(run_id, params=params))
            await worker.run_once(timeout=20.0)
        await queue_drained(store)
        payloads = [msgspec.json.decode(letter["payload"])["params"] for letter in await letters(store)]
        assert payloads == [[1], [2]]


async def test_a_letter_carries_at_most_64_kib_of_the_message(store: Store) -> None:
    async with working(store.config) as worker:
        await publish_job(store, b"x" * 100_000)
        await worker.run_once(timeout=20.0)
        assert len((await the_letter(store))["payload"]) == 64 * 1024
