"""Sums by tenant and minute: kept over a restart, made where there are none, forgotten after an hour."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.lifecycle.events import RunCompleted, RunErased, RunSubmitted
from pyoco_server.lifecycle.reduce import fold
from pyoco_server.lifecycle.run import Run
from pyoco_server.read_model.run_tally import RunTally
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.store import Store
from tests.conftest import NatsServer
from tests.store.making import START, begun, claimed, committed, config_on, submission


@pytest.fixture
def config(nats_server: NatsServer, tmp_path: Path) -> NatsBackendConfig:
    return config_on(nats_server, read_model_path=str(tmp_path / "read.sqlite"))


def submitted(tenant: str | None, at: float = START) -> Run:
    said: RunSubmitted = submission(tenant_id=tenant, at=at)
    run = fold(None, (said,))
    assert run is not None
    return run


def ended(run: Run, at: float) -> Run:
    done = fold(run, (claimed(at=at), RunCompleted(at=at)))
    assert done is not None
    return done


def test_each_tenant_has_its_own_sums_and_nobody_has_all() -> None:
    tally = RunTally()
    ours, theirs = submitted("acme"), submitted(None)
    for run in (ours, theirs):
        tally.change(None, run)
    tally.change(ours, ended(ours, START + 5))
    assert tally.of("acme") == {"PENDING": 0, "COMPLETED": 1}
    assert tally.of(None) == {"PENDING": 1, "COMPLETED": 1}
    assert tally.of("stranger") == {}
    again = RunTally()
    again.load(tally.dump())
    assert again.of("acme") == tally.of("acme")
    assert again.of(None) == tally.of(None)


def test_an_erased_run_counts_nowhere() -> None:
    tally = RunTally()
    run = submitted("acme")
    tally.change(None, run)
    gone = fold(run, (RunErased(at=START + 1),))
    assert gone is not None
    tally.change(run, gone)
    assert tally.of("acme") == {"PENDING": 0}


def test_minutes_are_those_of_the_events_and_an_hour_long() -> None:
    tally = RunTally()
    begin = START - START % 60
    for minute in range(70):
        run = submitted("acme", begin + minute * 60)
        tally.change(None, run)
        tally.change(run, ended(run, begin + minute * 60 + 1))
    shown = tally.minutes("acme", begin + 69 * 60 + 30)
    assert len(shown) == 60
    assert [one.sums for one in shown] == [{"SUBMITTED": 1, "COMPLETED": 1}] * 60
    assert shown[-1].began_at == begin + 69 * 60
    assert tally.minutes("other", begin + 69 * 60)[-1].sums == {}
    # What is told late, of a time that is forgotten, is not remembered either.
    late = submitted("acme", begin)
    tally.change(None, late)
    assert tally.minute("acme", begin).sums == {}


async def test_sums_and_minutes_outlive_a_restart(store: Store, config: NatsBackendConfig) -> None:
    made = [await begun(store, tenant_id="acme") for _ in range(3)]
    await committed(store, made[0], claimed())
    first = ReadModel(store.client, store.jetstream, config)
    await first.start()
    await first.catch_up()
    counts = dict(first.tally.of("acme"))
    await first.stop()
    again = ReadModel(store.client, store.jetstream, config)
    await again.start()
    await again.catch_up()
    assert dict(again.tally.of("acme")) == counts == {"PENDING": 2, "RUNNING": 1}
    assert again.runs.flows("acme", 10) == again.runs.flows(None, 10) == [made[0].run.flow_name]
    assert again.runs.flows("stranger", 10) == []
    await again.stop()
