"""The gateway's copy of what rechecks there are."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from pyoco_server.read_model.recheck_table import StrategySearch
from pyoco_server.read_model.rechecks import RecheckModel
from pyoco_server.recheck.catalogue import Strategy
from pyoco_server.store.store import Store


@pytest.fixture
async def model(store: Store) -> AsyncIterator[RecheckModel]:
    started = RecheckModel(store.client, store.jetstream, store.config)
    await started.start()
    yield started
    await started.stop()


@pytest.mark.parametrize("step", ["run_many", "write_meta"])
async def test_what_could_not_be_written_is_written_later(
    store: Store, model: RecheckModel, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def disk_full(*_: object) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(model._table, step, disk_full)
        await store.rechecks.put_strategy("default", Strategy(id="strat.a", title="A", tags=("daily",)))
        with pytest.raises(OSError, match="disk full"):
            await model.catch_up()
    await store.rechecks.put_strategy("default", Strategy(id="strat.b", title="B", tags=("daily",)))
    await model.catch_up()
    assert model._table.count(StrategySearch("default", tags=("daily",))) == 2
