"""What the read model keeps for whoever counts: sums by status, news told once, the longest wait by tag."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.lifecycle.events import Event, RunCompleted, RunErased
from pyoco_server.lifecycle.run import Run
from pyoco_server.read_model.run_table import RunTable
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.store import Store
from tests.conftest import NatsServer
from tests.store.making import START, begun, claimed, committed, config_on


@pytest.fixture
def config(nats_server: NatsServer, tmp_path: Path) -> NatsBackendConfig:
    return config_on(nats_server, read_model_path=str(tmp_path / "read.sqlite"))


def standing(model: ReadModel) -> dict[str, int]:
    return {status: count for status, count in model.tally.of(None).items() if count}


async def test_runs_are_counted_where_they_stand(store: Store, read_model: ReadModel) -> None:
    assert standing(read_model) == {}
    made = [await begun(store) for _ in range(4)]
    running = [await committed(store, at, claimed()) for at in made[:3]]
    ended = await committed(store, running[0], RunCompleted(at=START + 5))
    await read_model.catch_up()
    assert standing(read_model) == {"PENDING": 1, "RUNNING": 2, "COMPLETED": 1}
    await store.runs.append(ended, (RunErased(at=START + 9),), "erasing")
    await read_model.catch_up()
    assert standing(read_model) == {"PENDING": 1, "RUNNING": 2}
    assert read_model.find(ended.run.run_id) is None
    assert read_model.find(made[3].run.run_id) is not None
    assert read_model.find("unknown") is None


async def test_the_sums_are_kept_over_a_restart_and_made_where_they_were_not(
    store: Store, config: NatsBackendConfig
) -> None:
    made = [await begun(store) for _ in range(3)]
    first = ReadModel(store.client, store.jetstream, config)
    await first.start()
    await first.catch_up()
    await first.stop()
    second = ReadModel(store.client, store.jetstream, config)
    await second.start()
    assert standing(second) == {"PENDING": 3}
    await committed(store, made[0], claimed())
    await second.catch_up()
    assert standing(second) == {"PENDING": 2, "RUNNING": 1}
    second.wipe()
    await second.catch_up()
    assert standing(second) == {"PENDING": 2, "RUNNING": 1}
    await second.stop()
    table = RunTable(Path(config.read_model_path))
    assert table._db.execute("DELETE FROM meta WHERE key = 'tally'").rowcount == 1
    assert sorted(table.counts_by_tenant()) == [(None, "PENDING", 2), (None, "RUNNING", 1)]
    table.close()
    third = ReadModel(store.client, store.jetstream, config)
    await third.start()
    assert standing(third) == {"PENDING": 2, "RUNNING": 1}
    await third.stop()


async def test_news_are_told_once_and_history_is_not(store: Store, config: NatsBackendConfig) -> None:
    old = await begun(store)
    model = ReadModel(store.client, store.jetstream, config)
    told: list[tuple[str | None, str]] = []

    def on_news(before: Run | None, after: Run, _: Sequence[Event]) -> None:
        told.append((before.status if before else None, after.status))

    model.notifications.on_new_commit(on_news)
    await model.start()
    await model.catch_up()
    assert told == []
    await committed(store, old, claimed())
    await begun(store)
    await model.catch_up()
    assert told == [("PENDING", "RUNNING"), (None, "PENDING")]
    model.wipe()
    await model.catch_up()
    assert len(told) == 2
    await begun(store)
    await model.catch_up()
    assert len(told) == 3
    await model.stop()


async def test_who_has_waited_longest_is_known_by_tag(store: Store, read_model: ReadModel) -> None:
    for number, tag in enumerate(["a", "b", "a", "b", "a"]):
        await begun(store, at=START + number, tag=tag)
    first = await begun(store, at=START - 5, tag="c")
    await committed(store, first, claimed())
    await read_model.catch_up()
    assert read_model.housekeeping.oldest_owed() == {"a": START, "b": START + 1}
