"""Streams, buckets and consumers: made where missing, left alone where they are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import nats
import pytest

from pyoco_server.config import NatsBackendConfig, field_names
from pyoco_server.errors import Unavailable
from pyoco_server.jetstream.api import NANOSECONDS, JetStream
from pyoco_server.jetstream.descriptions import StreamSettings
from pyoco_server.jetstream.errors import BrokerRefused, StreamDoesNotFit
from pyoco_server.jetstream.requests import Requests
from pyoco_server.store import resources
from pyoco_server.store.resource_checks import ProblemLevel, problems
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, until
from tests.store.making import begun, config_on

SECOND = NANOSECONDS


@pytest.fixture
async def jetstream(store: Store) -> AsyncIterator[JetStream]:
    """A connection to the server on which nothing of the config below exists."""
    requests = Requests(store.client, timeout_sec=5.0)
    await requests.open()
    yield JetStream(requests)
    await requests.close()


@pytest.fixture
def fresh(nats_server: NatsServer) -> NatsBackendConfig:
    return config_on(nats_server)


async def settings_of(jetstream: JetStream, stream: str) -> dict[str, Any]:
    config: dict[str, Any] = (await jetstream.api(f"STREAM.INFO.{stream}"))["config"]
    return config


async def test_everything_missing_is_created(jetstream: JetStream, fresh: NatsBackendConfig) -> None:
    await resources.ensure(jetstream, fresh)
    work = await settings_of(jetstream, fresh.work_stream)
    assert (work["retention"], work["subjects"]) == ("workqueue", [f"{fresh.work_subject_prefix}.>"])
    dlq = await settings_of(jetstream, fresh.dlq_stream)
    assert dlq["subjects"] == [f"{fresh.dlq_subject_prefix}.>"]
    assert (dlq["max_msgs"], dlq["max_bytes"]) == (100_000, fresh.dlq_max_bytes)
    assert dlq["max_age"] == 604_800 * SECOND
    runs = await settings_of(jetstream, f"KV_{fresh.runs_kv_bucket}")
    assert (runs["max_msgs_per_subject"], runs["storage"]) == (1, "file")
    events = await settings_of(jetstream, fresh.events_stream)
    assert events["allow_direct"]
    assert events["allow_rollup_hdrs"]
    assert events["allow_msg_ttl"]


async def test_what_exists_keeps_its_settings(jetstream: JetStream, fresh: NatsBackendConfig) -> None:
    work = {
        "name": fresh.work_stream,
        "subjects": [f"{fresh.work_subject_prefix}.>"],
        "retention": "workqueue",
        "duplicate_window": 7 * SECOND,
    }
    dlq = {"name": fresh.dlq_stream, "subjects": [f"{fresh.dlq_subject_prefix}.>"], "max_msgs": 12}
    for wanted in (work, dlq):
        await jetstream.api(f"STREAM.CREATE.{wanted['name']}", wanted)
    before = [await settings_of(jetstream, name) for name in (fresh.work_stream, fresh.dlq_stream)]
    await resources.ensure(jetstream, fresh)
    after = [await settings_of(jetstream, name) for name in (fresh.work_stream, fresh.dlq_stream)]
    assert after == before
    assert (after[0]["duplicate_window"], after[1]["max_msgs"]) == (7 * SECOND, 12)


async def test_a_stream_that_carries_more_than_ours_will_do(
    jetstream: JetStream, fresh: NatsBackendConfig
) -> None:
    subjects = [f"{fresh.dlq_subject_prefix}.>", f"{fresh.dlq_subject_prefix}-too.>"]
    await jetstream.api(f"STREAM.CREATE.{fresh.dlq_stream}", {"name": fresh.dlq_stream, "subjects": subjects})
    await resources.ensure(jetstream, fresh)
    assert (await settings_of(jetstream, fresh.dlq_stream))["subjects"] == subjects


async def test_a_stream_of_our_name_with_other_subjects_is_named_with_what_to_do(
    jetstream: JetStream, fresh: NatsBackendConfig
) -> None:
    stream = {"name": fresh.work_stream, "subjects": [f"{fresh.work_stream}.elsewhere"]}
    await jetstream.api(f"STREAM.CREATE.{fresh.work_stream}", stream)
    with pytest.raises(Unavailable, match=f"Stream {fresh.work_stream} exists with other subjects.*rename"):
        await resources.ensure(jetstream, fresh)


async def test_a_store_that_meets_such_a_stream_says_why_it_is_not_ready_and_goes_on_when_it_is_gone(
    jetstream: JetStream, fresh: NatsBackendConfig
) -> None:
    stream = {"name": fresh.work_stream, "subjects": [f"{fresh.work_stream}.elsewhere"]}
    await jetstream.api(f"STREAM.CREATE.{fresh.work_stream}", stream)
    store = Store(fresh, name="test")
    opening = asyncio.create_task(store.open())
    await until(lambda: "other subjects" in (store.why_not_ready or ""))
    await jetstream.api(f"STREAM.DELETE.{fresh.work_stream}")
    async with asyncio.timeout(10):
        await opening
    assert store.why_not_ready is None
    await store.close()


async def test_many_may_ensure_at_once(fresh: NatsBackendConfig) -> None:
    stores = await asyncio.gather(*(Store.connect(fresh, name=f"test-{n}") for n in range(4)))
    assert [store.why_not_ready for store in stores] == [None] * 4
    assert await begun(stores[3])
    await asyncio.gather(*(store.close() for store in stores))


async def test_a_program_with_a_nats_connection_of_its_own_can_create_them(
    nats_server: NatsServer, fresh: NatsBackendConfig
) -> None:
    connection = await nats.connect(nats_server.url)
    context = connection.jetstream()
    await resources.ensure_resources(context, fresh)
    await resources.ensure_resources(context, fresh)
    assert (await context.stream_info(fresh.work_stream)).config.name == fresh.work_stream
    bucket = await context.key_value(fresh.runs_kv_bucket)
    await bucket.put("k", b"v")
    assert (await bucket.get("k")).value == b"v"
    await connection.close()


async def test_two_environments_on_one_broker_do_not_meet(nats_server: NatsServer) -> None:
    one = await Store.connect(config_on(nats_server), name="one")
    two = await Store.connect(config_on(nats_server), name="two")
    born = await begun(one)
    assert await one.runs.load(born.run.run_id) is not None
    assert await two.runs.load(born.run.run_id) is None
    assert await two.jetstream.last_seq(two.config.events_stream) == 0
    await asyncio.gather(one.close(), two.close())


async def test_the_consumer_of_a_tag_has_the_settings_of_the_contract(store: Store) -> None:
    name = await resources.ensure_consumer(store.jetstream, store.config, "gpu")
    info = await store.jetstream.api(f"CONSUMER.INFO.{store.config.work_stream}.{name}")
    made = info["config"]
    assert name == "pyoco_workers_gpu"
    assert made["filter_subject"] == f"{store.config.work_subject_prefix}.gpu"
    assert (made["ack_wait"], made["max_deliver"], made["max_ack_pending"]) == (30 * SECOND, 20, 200)


async def test_a_consumer_that_exists_keeps_its_settings(store: Store) -> None:
    await resources.ensure_consumer(store.jetstream, store.config, "gpu")
    other = NatsBackendConfig(**_members(store.config) | {"consumer_ack_wait_sec": 77.0})
    name = await resources.ensure_consumer(store.jetstream, other, "gpu")
    info = await store.jetstream.api(f"CONSUMER.INFO.{store.config.work_stream}.{name}")
    assert info["config"]["ack_wait"] == 30 * SECOND


async def test_the_consumer_of_whoever_was_first_stands(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both looked and saw none; then both create it, with settings that differ."""
    other = NatsBackendConfig(**_members(store.config) | {"consumer_ack_wait_sec": 77.0})
    ask, both_have_looked, in_turn = store.jetstream.api, asyncio.Barrier(2), asyncio.Lock()
    asked: list[int] = []

    async def look_then_create(name: str, payload: dict[str, Any] | None = None) -> dict[str, Any]:
        if payload is None:
            try:
                return await ask(name)
            finally:
                await both_have_looked.wait()
        async with in_turn:
            asked.append(payload["config"]["ack_wait"])
            return await ask(name, payload)

    with monkeypatch.context() as patch:
        patch.setattr(store.jetstream, "api", look_then_create)
        name, _ = await asyncio.gather(
            resources.ensure_consumer(store.jetstream, store.config, "gpu"),
            resources.ensure_consumer(store.jetstream, other, "gpu"),
        )
    info = await ask(f"CONSUMER.INFO.{store.config.work_stream}.{name}")
    assert len(asked) == 2
    assert info["config"]["ack_wait"] == asked[0]


async def test_a_consumer_is_not_made_up_when_the_broker_has_other_troubles(store: Store) -> None:
    await store.jetstream.api(f"STREAM.DELETE.{store.config.work_stream}")
    with pytest.raises(BrokerRefused) as refused:
        await resources.ensure_consumer(store.jetstream, store.config, "gpu")
    assert refused.value.code == 10059


@pytest.mark.parametrize("version", ["2.14.0", "2.15.1", "2.14.0-RC.1", "v3.0.0", "2.14"])
def test_a_broker_new_enough_is_accepted(version: str) -> None:
    resources.check_broker_version(version)


@pytest.mark.parametrize("version", ["2.13.9", "2.9.22", "1.4.1", "2.12.0-beta.1"])
def test_an_old_broker_is_refused_with_what_to_run_instead(version: str) -> None:
    sentence = f"nats-server {version} is too old. Run nats-server 2.14 or newer."
    with pytest.raises(Unavailable) as refused:
        resources.check_broker_version(version)
    assert refused.value.message == sentence


def _members(config: NatsBackendConfig) -> dict[str, Any]:
    return {name: getattr(config, name) for name in field_names()}


async def created_with(jetstream: JetStream, config: NatsBackendConfig, name: str, **settings: Any) -> None:
    """As we would, but for these settings."""
    wanted = next(one for one in resources.streams(config) if one["name"] == name)
    await jetstream.api(f"STREAM.CREATE.{name}", {"storage": "file"} | wanted | settings)


FATAL_IN_THE_LOG: dict[str, tuple[dict[str, Any], str]] = {
    "age": ({"max_age": 3600 * SECOND}, "drops messages by age"),
    "bytes": ({"max_bytes": 2**20}, "drops its oldest messages"),
    "count": ({"max_msgs": 1_000}, "drops its oldest messages"),
    "count per run": ({"max_msgs_per_subject": 3}, "drops its oldest messages"),
    "memory": ({"storage": "memory"}, "is kept in memory"),
    "retention": ({"retention": "workqueue"}, "has retention workqueue instead of limits"),
}


@pytest.mark.parametrize("case", FATAL_IN_THE_LOG)
async def test_an_event_log_that_would_lose_commits_is_refused_with_what_to_do(
    jetstream: JetStream, fresh: NatsBackendConfig, case: str
) -> None:
    settings, said = FATAL_IN_THE_LOG[case]
    if settings.get("retention"):
        settings = settings | {"republish": None, "allow_msg_ttl": False}
    await created_with(jetstream, fresh, fresh.events_stream, **settings)
    with pytest.raises(StreamDoesNotFit, match=f"Stream {fresh.events_stream} {said}.*: ") as refused:
        await resources.ensure(jetstream, fresh)
    assert fresh.events_stream not in refused.value.public_message
    assert refused.value.public_message.startswith("The event log at the broker ")


WARNED_OF: dict[str, tuple[str, dict[str, Any], str]] = {
    "a log that may fill up": (
        "events_stream",
        {"max_bytes": 2**20, "discard": "new"},
        "refuses new messages",
    ),
    "jobs that age": ("work_stream", {"max_age": 3600 * SECOND}, "drops messages by age"),
    "jobs that are dropped": ("work_stream", {"max_bytes": 2**20}, "drops its oldest messages"),
    "jobs in memory": ("work_stream", {"storage": "memory"}, "is kept in memory"),
}


@pytest.mark.parametrize("case", WARNED_OF)
async def test_other_foreign_settings_will_do_and_are_said(
    jetstream: JetStream, fresh: NatsBackendConfig, case: str
) -> None:
    stream, settings, said = WARNED_OF[case]
    name = getattr(fresh, stream)
    await created_with(jetstream, fresh, name, **settings)
    [problem] = await resources.ensure(jetstream, fresh)
    assert problem.what.startswith(f"Stream {name} {said}")
    assert name not in problem.public
    assert await resources.ensure(jetstream, fresh) == [problem]


@pytest.mark.parametrize(("is_log", "level"), [(True, ProblemLevel.FATAL), (False, ProblemLevel.WARNING)])
def test_a_log_with_fewer_copies_than_configured_is_refused_and_more_will_do(
    is_log: bool, level: ProblemLevel
) -> None:
    wanted: StreamSettings = {"name": "S", "subjects": ["s"], "retention": "limits", "storage": "file"}
    wanted["num_replicas"] = 3
    [problem] = problems(wanted | {"num_replicas": 1}, wanted, is_log=is_log)
    assert (problem.level, "has 1 copies" in problem.what) == (level, True)
    assert list(problems(wanted | {"num_replicas": 5}, wanted, is_log=True)) == []


async def test_what_we_create_is_as_we_want_it(jetstream: JetStream, fresh: NatsBackendConfig) -> None:
    assert await resources.ensure(jetstream, fresh) == []
    assert await resources.ensure(jetstream, fresh) == []


async def test_a_store_with_a_foreign_stream_says_so(jetstream: JetStream, fresh: NatsBackendConfig) -> None:
    await created_with(jetstream, fresh, fresh.work_stream, storage="memory")
    store = await Store.connect(fresh, name="test")
    assert ["kept in memory" in one.public for one in store.problems] == [True]
    await store.close()
