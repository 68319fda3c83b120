"""Runs that have been over for long enough are erased, all of them; those that live never are."""

from __future__ import annotations

import time
from typing import Any

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.housekeeping import old_runs
from pyoco_server.housekeeping.old_runs import OldRuns
from pyoco_server.lifecycle.commands import AddTag, ArchiveRun, CancelRun
from pyoco_server.operations.runs.apply import apply
from pyoco_server.operations.runs.erase import erase_run
from pyoco_server.read_model.housekeeping_queries import EndedRun, HousekeepingQueries
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.store import Store
from pyoco_server.supervision import failures_by_loop
from tests.conftest import NatsServer, until
from tests.http_api.live import live
from tests.http_api.serving import submit
from tests.log_writing import Writer
from tests.worker.stage import Flows, config_on, one_task, submitted, until_handled, working

KEPT_SEC = 0.5


@pytest.fixture
def config(nats_server: NatsServer) -> NatsBackendConfig:
    return config_on(nats_server, run_history_sec=KEPT_SEC)


@pytest.fixture
def keeper(store: Store, read_model: ReadModel) -> OldRuns:
    return OldRuns(store, read_model)


async def over(store: Store) -> str:
    run_id = await submitted(store)
    await apply(store, run_id, CancelRun())
    return run_id


async def old(store: Store, read_model: ReadModel) -> None:
    """Everything that is over now has been for long enough."""
    await read_model.catch_up()

    def is_old() -> bool:
        return all(
            run.updated_at + KEPT_SEC < time.time() for run in read_model.housekeeping.oldest_ended(1_000)
        )

    await until(is_old)


async def left(store: Store, *run_ids: str) -> list[str]:
    return [run_id for run_id in run_ids if await store.runs.load(run_id) is not None]


async def messages(store: Store, stream: str, subject: str) -> int:
    return len(await store.jetstream.after(stream, subject, 0))


async def test_what_is_over_goes_with_all_that_is_its_own_and_what_lives_stays(
    store: Store, read_model: ReadModel, keeper: OldRuns
) -> None:
    gone, archived = await over(store), await over(store)
    await apply(store, archived, ArchiveRun())
    await Writer(store, gone).write("one", "two")
    waiting = await submitted(store)
    await old(store, read_model)
    fresh = await over(store)
    await read_model.catch_up()
    assert await keeper.look() == 2
    await read_model.catch_up()
    assert await left(store, gone, archived, waiting, fresh) == [waiting, fresh]
    assert read_model.runs.count() == 2
    logs = f"{store.config.logs_subject_prefix}.{gone}"
    assert await messages(store, store.config.logs_stream, logs) == 0


async def test_large_results_go_too(
    store: Store, config: NatsBackendConfig, read_model: ReadModel, keeper: OldRuns
) -> None:
    flows = Flows(large=one_task(lambda: "x" * 200_000))
    run_id = await submitted(store, "large")
    async with working(config, flows) as worker:
        await until_handled(worker, run_id)
    stream = f"OBJ_{config.results_object_bucket}"
    assert await messages(store, stream, f"$O.{config.results_object_bucket}.C.>") > 0
    await old(store, read_model)
    assert await keeper.look() == 1
    assert await messages(store, stream, f"$O.{config.results_object_bucket}.C.>") == 0


async def test_nothing_is_read_until_something_is_due(
    store: Store, read_model: ReadModel, keeper: OldRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    await over(store)
    await read_model.catch_up()
    assert await keeper.look() == 0
    monkeypatch.delattr(HousekeepingQueries, "oldest_ended")
    assert await keeper.look() == 0


async def test_many_go_in_several_rounds(
    store: Store, read_model: ReadModel, keeper: OldRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(old_runs, "RUNS_AT_ONCE", 2)
    run_ids = [await over(store) for _ in range(5)]
    await old(store, read_model)
    erased = []
    while await left(store, *run_ids):
        await read_model.catch_up()
        erased.append(await keeper.look())
    assert erased == [2, 2, 1]


async def test_a_run_whose_tags_were_changed_is_kept_from_then_on(
    store: Store, read_model: ReadModel, keeper: OldRuns
) -> None:
    run_id = await over(store)
    await old(store, read_model)
    await apply(store, run_id, AddTag(tag="keep", tags_max=100))
    await read_model.catch_up()
    assert await keeper.look() == 0
    assert await left(store, run_id) == [run_id]


async def test_the_log_decides_whether_it_is_over(
    store: Store, read_model: ReadModel, keeper: OldRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list that is wrong, or a run that somebody else has erased, harms nobody."""
    lives, gone = await submitted(store), "00000000-0000-4000-8000-000000000000"
    wrong = [EndedRun(lives, 0.0), EndedRun(gone, 0.0)]
    monkeypatch.setattr(HousekeepingQueries, "oldest_ended", lambda queries, limit: wrong)
    assert await keeper.look() == 0
    assert await left(store, lives) == [lives]


async def test_without_the_setting_everything_is_kept(nats_server: NatsServer, read_model: ReadModel) -> None:
    store = await Store.connect(config_on(nats_server), name="test")
    try:
        assert store.config.run_history_sec == 0
        assert await OldRuns(store, read_model).look() == 0
    finally:
        await store.close()


async def test_a_gateway_does_it_by_itself(config: NatsBackendConfig, store: Store) -> None:
    async with live(config) as gateway:
        run_id = await submit(gateway.client)
        await gateway.client.post(f"/runs/{run_id}/cancel")

        async def is_gone() -> bool:
            return (await gateway.client.get(f"/runs/{run_id}")).status_code == 404

        await until(is_gone)
        assert (await gateway.client.get("/runs")).json() == []


async def test_runs_that_only_the_list_has_do_not_stop_the_others_from_going(
    store: Store, read_model: ReadModel, keeper: OldRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(old_runs, "RUNS_AT_ONCE", 3)
    ghosts = [EndedRun(f"00000000-0000-4000-8000-{number:012}", 1.0) for number in range(6)]
    real = HousekeepingQueries.oldest_ended

    def with_ghosts(queries: HousekeepingQueries, limit: int) -> list[EndedRun]:
        return [*ghosts, *real(queries, limit)][:limit]

    monkeypatch.setattr(HousekeepingQueries, "oldest_ended", with_ghosts)
    gone = await over(store)
    await old(store, read_model)
    assert [await keeper.look() for _ in range(3)] == [0, 0, 1]
    assert await left(store, gone) == []


async def test_runs_that_cannot_be_erased_do_not_stop_the_others_from_going(
    store: Store, read_model: ReadModel, keeper: OldRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = {await over(store) for _ in range(old_runs.SIDE_BY_SIDE)}
    await old(store, read_model)
    gone = await over(store)
    await old(store, read_model)

    async def erase_but_those(store: Store, run_id: str, **options: Any) -> None:
        if run_id in broken:
            raise ValueError("its log cannot be read")
        await erase_run(store, run_id, **options)

    monkeypatch.setattr(old_runs, "erase_run", erase_but_those)
    assert await keeper.look() == 1
    assert await left(store, gone) == []
    assert failures_by_loop()["housekeeping.old runs"] >= len(broken)
