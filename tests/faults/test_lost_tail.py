"""A broker returns without the end of its streams, and gives the same sequences to other messages.

What a gateway has read before is then no ground to go on from: lists, sums, keys and streams are as the
broker has them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Forbidden, Unavailable
from pyoco_server.lifecycle.commands import AddTag, CancelRun, EraseRun
from pyoco_server.lifecycle.events import TagAdded
from pyoco_server.operations.identity.api_keys import revoke_key
from pyoco_server.operations.identity.authenticate import KeyCheck
from pyoco_server.operations.runs.apply import apply
from pyoco_server.operations.runs.query import list_runs
from pyoco_server.read_model.run_table import Filter
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.logs.writer import LogEnd, LogLine
from pyoco_server.store.runs.log import Overtaken
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, until
from tests.faults.past import Past
from tests.http_api.live import Event, Live, events, live
from tests.http_api.serving import submit
from tests.keyring import id_of, new_key
from tests.store.making import begun, claimed, committed
from tests.worker.stage import config_on

GHOSTS = 5


@pytest.fixture
def config(own_nats_server: NatsServer, tmp_path: Path) -> NatsBackendConfig:
    return config_on(own_nats_server, read_model_path=str(tmp_path / "read_model.sqlite"))


@asynccontextmanager
async def opened(config: NatsBackendConfig) -> AsyncIterator[Store]:
    store = await Store.connect(config, name="test")
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def following(store: Store) -> AsyncIterator[ReadModel]:
    model = ReadModel(store.client, store.jetstream, store.config)
    store.on_reconnect(model.handle_reconnect)
    await model.start()
    try:
        yield model
    finally:
        store.forget_reconnect(model.handle_reconnect)
        await model.stop()


async def listed(model: ReadModel) -> dict[str, str]:
    return {run.run_id: str(run.status.value) for run in await list_runs(model, Filter(), 100)}


async def in_the_log(store: Store) -> dict[str, str]:
    found = {}
    async for run_id in store.runs.ids():
        stored = await store.runs.load(run_id, at_leader=True)
        assert stored is not None
        found[run_id] = str(stored.run.status.value)
    return found


async def connected(store: Store, *, again: int) -> None:
    """After so many reconnects."""
    await until(lambda: store.reconnects == again and store.why_not_ready is None)


async def ready(gateway: Live, *, again: int) -> None:
    await connected(gateway.gateway.store, again=again)
    await until(lambda: gateway.gateway.ready()["ready"])


async def test_a_list_that_was_followed_meanwhile_is_as_the_log(
    own_nats_server: NatsServer, config: NatsBackendConfig, tmp_path: Path
) -> None:
    async with opened(config) as store, following(store) as model:
        first = await begun(store)
        past = Past(own_nats_server, tmp_path / "past")
        await connected(store, again=1)
        ghosts = [await begun(store) for _ in range(GHOSTS)]
        await apply(store, first.run.run_id, CancelRun())
        assert len(await listed(model)) == GHOSTS + 1
        past.comes_back()
        await connected(store, again=2)
        for _ in range(2 * GHOSTS):
            await begun(store)
        told = await listed(model)
        assert told == await in_the_log(store)
        assert not {ghost.run.run_id for ghost in ghosts} & set(told)
        assert model.tally.of(None)["PENDING"] == 2 * GHOSTS + 1
        assert model.tally.of(None).get("CANCELLED", 0) == 0


async def test_a_file_is_not_continued_in_a_log_that_has_grown_past_its_position_again(
    own_nats_server: NatsServer, config: NatsBackendConfig, tmp_path: Path
) -> None:
    async with opened(config) as store:
        await begun(store)
        past = Past(own_nats_server, tmp_path / "past")
        await connected(store, again=1)
        async with following(store) as model:
            for _ in range(GHOSTS):
                await begun(store)
            assert len(await listed(model)) == GHOSTS + 1
        past.comes_back()
        await connected(store, again=2)
        for _ in range(2 * GHOSTS):
            await begun(store)
        async with following(store) as model:
            assert await listed(model) == await in_the_log(store)


async def test_a_file_is_continued_where_the_log_is_the_same(
    own_nats_server: NatsServer, config: NatsBackendConfig
) -> None:
    """Also when the run it has read last was erased meanwhile: a rollup explains why its commits are gone."""
    async with opened(config) as store:
        kept = await begun(store)
        async with following(store) as model:
            erased = await begun(store)
            await apply(store, erased.run.run_id, CancelRun())
            await listed(model)
        await apply(store, erased.run.run_id, EraseRun())
        async with following(store) as model:
            assert list(await listed(model)) == [kept.run.run_id]
            assert model.rebuilds == 0


async def test_lists_are_refused_until_it_is_known_what_the_broker_has(
    own_nats_server: NatsServer, config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(config) as store, following(store) as model:
        await begun(store)
        await listed(model)

        async def unavailable() -> None:
            raise Unavailable("not now")

        monkeypatch.setattr(model.feed, "_verify", unavailable)
        own_nats_server.kill()
        own_nats_server.start()
        await connected(store, again=1)
        with pytest.raises(Unavailable):
            await model.catch_up(within_sec=0.3)


async def test_keys_are_as_the_broker_has_them(
    own_nats_server: NatsServer, config: NatsBackendConfig, tmp_path: Path
) -> None:
    async with opened(config) as store:
        checks = KeyCheck(store)
        store.on_reconnect(checks.table.handle_reconnect)
        await checks.start()
        try:
            one, other = await new_key(store), await new_key(store)
            past = Past(own_nats_server, tmp_path / "past")
            await connected(store, again=1)
            lost = await new_key(store)
            await revoke_key(store, id_of(one))
            await until(lambda: is_refused(checks, one))
            past.comes_back()
            await connected(store, again=2)
            # As many messages as were lost: every sequence is that of another message now.
            await revoke_key(store, id_of(other))
            await new_key(store)
            await until(lambda: is_refused(checks, other))
            await until(lambda: is_refused(checks, lost))
            assert not await is_refused(checks, one), "its revocation is lost with the end of the stream"
            await revoke_key(store, id_of(one))
            await until(lambda: is_refused(checks, one))
        finally:
            await checks.stop()


async def is_refused(checks: KeyCheck, key: str) -> bool:
    try:
        await checks.caller(key.encode())
    except Unavailable:
        return False
    except Forbidden:
        return True
    return False


async def test_readers_of_a_gateway_are_told_to_read_again(
    own_nats_server: NatsServer, config: NatsBackendConfig, tmp_path: Path
) -> None:
    async with live(config) as gateway, opened(config) as store:
        await submit(gateway.client)
        await store.secrets.for_tokens()
        past = Past(own_nats_server, tmp_path / "past")
        await ready(gateway, again=1)
        ghosts = [await submit(gateway.client) for _ in range(GHOSTS)]
        async with gateway.client.stream("GET", "/runs/stream", params={"timeout_sec": 60}) as answer:
            stream = events(answer)
            opening = await anext(stream)
            past.comes_back()
            told = await first(stream, "reset")
            assert told.data["counts"]["PENDING"] == 1
        await ready(gateway, again=2)
        await connected(store, again=2)
        for _ in range(2 * GHOSTS):
            await submit(gateway.client)
        answered = (await gateway.client.get("/runs", params={"limit": 100})).json()
        assert {run["run_id"]: run["status"] for run in answered} == await in_the_log(store)
        assert not set(ghosts) & {run["run_id"] for run in answered}
        headers = {"Last-Event-ID": str(opening.id)}
        async with gateway.client.stream("GET", "/runs/stream", headers=headers) as answer:
            assert (await anext(events(answer))).name == "reset", "its place was in what is lost"


async def first(stream: AsyncIterator[Event], name: str) -> Event:
    async for event in stream:
        if event.name == name:
            return event
    raise AssertionError(f"no {name} came")


async def test_whoever_watches_a_run_is_shown_it_as_the_log_has_it(
    own_nats_server: NatsServer, config: NatsBackendConfig, tmp_path: Path
) -> None:
    async with live(config) as gateway, opened(config) as store:
        run_id = await submit(gateway.client)
        past = Past(own_nats_server, tmp_path / "past")
        await ready(gateway, again=1)
        lost = await submit(gateway.client)
        await connected(store, again=1)
        await apply(store, run_id, AddTag(tag="lost", tags_max=100))
        async with (
            gateway.client.stream("GET", f"/runs/{run_id}/watch") as watched,
            gateway.client.stream("GET", f"/runs/{lost}/watch") as watched_lost,
            gateway.client.stream("GET", f"/executions/{run_id}/stream") as listed_events,
        ):
            seen, seen_lost, seen_events = events(watched), events(watched_lost), events(listed_events)
            assert "lost" in (await snapshot(seen))["tags"]
            await snapshot(seen_lost)
            await anext(seen_events)
            past.comes_back()
            assert "lost" not in (await snapshot(seen))["tags"]
            await first(seen_events, "reset")
            assert [event async for event in seen_lost if event.name == "snapshot"] == []
        await ready(gateway, again=2)
        assert (await gateway.client.get(f"/runs/{lost}")).status_code == 404


async def snapshot(stream: AsyncIterator[Event]) -> dict[str, Any]:
    return dict((await first(stream, "snapshot")).data["snapshot"])


async def test_the_run_of_a_lost_worker_is_found_after_the_loss(
    own_nats_server: NatsServer, tmp_path: Path
) -> None:
    """Housekeeping knows runs from the list: a run that is not in it would have nobody."""
    config = config_on(own_nats_server, worker_lease_sec=1.5, housekeeping_interval_sec=0.2)
    async with live(config) as gateway, opened(config) as store:
        await submit(gateway.client)
        past = Past(own_nats_server, tmp_path / "past")
        await ready(gateway, again=1)
        for _ in range(GHOSTS):
            await submit(gateway.client)
        past.comes_back()
        await connected(store, again=2)
        for _ in range(GHOSTS - 1):
            stored = await begun(store)
        await committed(store, stored, claimed())

        async def is_taken_back() -> bool:
            now = await store.runs.load(stored.run.run_id, at_leader=True)
            return now is not None and now.run.claim is None

        await until(is_taken_back)


async def test_a_run_is_as_the_log_has_it_although_its_snapshot_was_not_lost(
    own_nats_server: NatsServer, config: NatsBackendConfig, tmp_path: Path
) -> None:
    """Streams lose their ends one by one. A snapshot of commits that are lost is no ground to fold on."""
    async with opened(config) as store:
        born = await begun(store)
        past = Past(own_nats_server, tmp_path / "past")
        await connected(store, again=1)
        lost = await committed(store, born, claimed())
        await store.runs.snapshots.project(lost)
        past.comes_back(config.events_stream)
        await connected(store, again=2)
        await begun(store)
        at = await store.runs.load(born.run.run_id, at_leader=True)
        assert at is not None
        for tag in ("a", "b"):
            at = await committed(store, at, TagAdded(at=1.0, tag=tag))
        for whole in (False, True):
            found = await store.runs.load(born.run.run_id, whole=whole)
            assert found is not None
            assert (found.run.claim, found.run.tags) == (None, ("default", "a", "b"))
        with pytest.raises(Overtaken) as overtaken:
            await committed(store, lost, TagAdded(at=1.0, tag="c"))
        assert overtaken.value.now is not None
        assert overtaken.value.now.run.claim is None


async def test_whoever_follows_a_log_begins_again_with_what_the_broker_has(
    own_nats_server: NatsServer, config: NatsBackendConfig, tmp_path: Path
) -> None:
    async with live(config) as gateway, opened(config) as store:
        run_id = await submit(gateway.client)
        await store.secrets.for_tokens()
        at = await printed(store, run_id, LogEnd(), "kept")
        past = Past(own_nats_server, tmp_path / "past")
        await ready(gateway, again=1)
        await connected(store, again=1)
        await printed(store, run_id, at, "lost")
        async with gateway.client.stream("GET", f"/runs/{run_id}/logs/stream") as answer:
            stream = events(answer)
            assert [(await first(stream, "logEntry")).data["message"] for _ in range(2)] == ["kept", "lost"]
            past.comes_back()
            await connected(store, again=2)
            await printed(store, run_id, at, "other")
            await first(stream, "reset")
            assert [(await first(stream, "logEntry")).data["message"] for _ in range(2)] == ["kept", "other"]


async def printed(store: Store, run_id: str, at: LogEnd, text: str) -> LogEnd:
    line = LogLine(1.0, "stdout", text)
    return await store.logs.append(run_id, at, [line], fence=1, chunk_id=text)


async def test_schedules_are_read_again_after_a_reconnect(
    own_nats_server: NatsServer, config: NatsBackendConfig
) -> None:
    async with live(config) as gateway:
        schedules = gateway.gateway._housekeeper._due_schedules
        schedules._seen = 10**6  # of a bucket whose end is lost
        own_nats_server.kill()
        own_nats_server.start()
        await ready(gateway, again=1)
        await until(lambda: schedules._seen < 10**6)
