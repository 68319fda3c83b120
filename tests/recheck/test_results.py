"""From a request to results: judged by whoever keeps house, once, whatever happens on the way."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Unavailable
from pyoco_server.housekeeping import ended_batches
from pyoco_server.ids import new_ulid
from pyoco_server.operations.rechecks import accept
from pyoco_server.operations.rechecks.workers import OwnWorkers
from pyoco_server.read_model.recheck_queries import RecheckQueries
from pyoco_server.read_model.recheck_rows import forget_older, write_outcome, write_request
from pyoco_server.read_model.recheck_table import RecheckTable
from pyoco_server.recheck.records import (
    Artifact,
    BatchOutcome,
    Request,
    StrategyResult,
    batches_of,
    run_ids_of,
)
from pyoco_server.recheck.thresholds import StrategyHealth
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, until
from tests.recheck.faces import asked, expect_flat, post, recheck_config, recheck_face, until_over
from tests.recheck.stage import CHART, GOOD, evaluating

PROFILES = """
threshold_profiles:
  strict: {sharpe: {op: ">", value: 0.8}}
strategies:
  - {id: strat.good}
  - {id: strat.bad}
  - {id: strat.half}
  - {id: strat.nan}
  - {id: strat.strict, threshold_profile: strict}
  - {id: strat.error}
  - {id: strat.missing, flow: other}
"""
RETURNS: dict[str, Any] = {
    "good": {"metrics": GOOD, "artifacts": [CHART, CHART | {"kind": "csv", "content": "a,b"}]},
    "bad": {"metrics": GOOD | {"max_dd": 0.2}},
    "half": {"metrics": {"sharpe": 2}},
    "nan": {"metrics": GOOD | {"winrate": float("nan")}},
    "strict": {"metrics": GOOD},
    "error": {"error": "no prices"},
}
EXPECTED = {
    "good": "healthy", "bad": "degraded", "half": "unknown", "nan": "unknown", "strict": "degraded",
    "error": "unknown", "missing": "healthy",
}  # fmt: skip


@pytest.fixture
def config(nats_server: NatsServer, tmp_path: Path) -> NatsBackendConfig:
    (tmp_path / "strategies.yaml").write_text(PROFILES, encoding="utf-8")
    return recheck_config(nats_server, tmp_path)


async def test_a_request_is_evaluated_judged_and_shown(config: NatsBackendConfig) -> None:
    names = [f"strat.{name}" for name in EXPECTED]
    wanted = asked(*names, dry_run=False, window={"lookback_days": 14}, trace_id="t-1")
    async with recheck_face(config) as face, evaluating(config, **RETURNS) as flow:
        accepted = (await post(face, wanted)).json()
        assert accepted["estimated"] == {"strategies": 7, "batches": 2}
        over = await until_over(face, accepted["request_id"])
        assert over["status"] == "success"
        assert over["progress"] == {
            "total_batches": 2, "completed_batches": 2, "total_strategies": 7, "completed_strategies": 7,
        }  # fmt: skip
        assert over["summary"] == {
            "success": 6, "failed": 1, "health": {"healthy": 2, "degraded": 2, "unknown": 3},
        }  # fmt: skip
        assert over["dag"] == {
            "name": "pdca_recheck",
            "run_id": accepted["dag"]["run_id"],
            "run_ids": run_ids_of(accepted["request_id"], 2),
        }
        assert [(one["kind"], one["bytes_size"]) for one in over["artifacts"]] == [("chart", 6), ("csv", 3)]
        assert sorted(len(given["strategies"]) for given in flow.given) == [1, 6]
        given = max(flow.given, key=lambda one: len(one["strategies"]))
        assert given == {
            "request_id": accepted["request_id"],
            "strategies": names[:6],
            "window": {"lookback_days": 14},
            "reason": "manual",
            "params": {"recalc_metrics": ["winrate", "sharpe", "max_dd"], "retrain": False},
            "trace_id": "t-1",
            "client_id": "anonymous",
        }
        await _expect_shown(face, accepted["request_id"])


async def _expect_shown(face: httpx.AsyncClient, request_id: str) -> None:
    listed = (await face.get("/gui/strategies")).json()["items"]
    assert {one["id"].removeprefix("strat."): one["last_health"] for one in listed} == EXPECTED
    good = (await face.get("/gui/strategies/strat.good")).json()
    (result,) = good["recent_results"]
    assert (result["metrics"], result["request_id"]) == (GOOD, request_id)
    assert good["summary"] == {
        "window_days": 30, "kpi_avg": GOOD, "last_completed_at": result["completed_at"],
    }  # fmt: skip
    assert len(good["artifacts"]) == 2
    nan = (await face.get("/gui/strategies/strat.nan/results")).json()["items"]
    assert nan[0]["metrics"]["winrate"] is None
    # Both ends belong to the range.
    at = result["completed_at"]
    for query, count in (({"from": at, "to": at}, 1), ({"from": at}, 1), ({"to": "2020-01-01"}, 0)):
        found = (await face.get("/gui/strategies/strat.good/results", params=query)).json()["items"]
        assert len(found) == count


@pytest.mark.parametrize(("bad", "status"), [(["error"], "success"), (["error", "nobody"], "failed")])
async def test_half_or_more_failed_is_failed(config: NatsBackendConfig, bad: list[str], status: str) -> None:
    returns = RETURNS | {"nobody": None, "missing": "rubbish"}
    names = [
        f"strat.{name}" for name in ("good", "bad", *("missing" if one == "nobody" else one for one in bad))
    ]
    async with recheck_face(config) as face, evaluating(config, **returns):
        accepted = (await post(face, asked(*names, dry_run=False))).json()
        over = await until_over(face, accepted["request_id"])
        assert (over["status"], over["summary"]["failed"]) == (status, len(bad))


async def test_a_flow_that_raises_or_is_cancelled_fails_its_strategies(config: NatsBackendConfig) -> None:
    async with recheck_face(config) as face:
        async with evaluating(config, bad=ValueError("no")):
            raised = (await post(face, asked("strat.bad", dry_run=False))).json()
            over = await until_over(face, raised["request_id"])
        assert (over["status"], over["summary"]["failed"]) == ("failed", 1)
        cancelled = (await post(face, asked("strat.good", dry_run=False))).json()
        await face.post(f"/runs/{cancelled['dag']['run_id']}/cancel")
        over = await until_over(face, cancelled["request_id"])
        assert (over["status"], over["progress"]["completed_strategies"]) == ("failed", 1)


@pytest.mark.parametrize("index", ["", "index.sqlite"], ids=["in memory", "on disk"])
async def test_what_ended_while_no_gateway_was_there_is_judged_by_the_next(
    config: NatsBackendConfig, tmp_path: Path, index: str
) -> None:
    config = replace(config, read_model_path=str(tmp_path / index) if index else "")
    async with recheck_face(config) as face:
        accepted = (await post(face, asked("strat.good", dry_run=False))).json()
    store = await Store.connect(config, name="test")
    async with evaluating(config, **RETURNS):

        async def is_over() -> bool:
            stored = await store.runs.load(accepted["dag"]["run_id"])
            return stored is not None and stored.run.is_terminal

        await until(is_over)
    await store.close()
    async with recheck_face(config) as after:
        over = await until_over(after, accepted["request_id"])
        assert over["summary"]["health"]["healthy"] == 1


async def test_a_request_whose_gateway_died_before_its_runs_is_started_by_housekeeping(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ended_batches, "START_AGAIN_AFTER_SEC", 0.0)
    store = await Store.connect(config, name="test")
    plan = await accept.put_plan(store, "R1", batches_of([("strat.good", "pdca_recheck")], 25))
    left: Any = {
        "request_id": "01JABCDEFGHJKMNPQRSTVWXYZ0", "tenant": "default", "client_id": "c", "reason": "r",
        "submitted_at": time.time(), "strategies": 1, "batches": 1, "dry_run": False,
    } | plan  # fmt: skip
    request = await store.rechecks.create_request(Request(**left))
    await store.close()
    async with recheck_face(config) as face, evaluating(config) as flow:
        over = await until_over(face, request.request_id)
        assert over["status"] == "success"
    assert len(flow.given) == 1


async def test_a_request_that_cannot_be_started_keeps_no_other_waiting(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ended_batches, "START_AGAIN_AFTER_SEC", 0.0)
    store = await Store.connect(config, name="test")
    requests = []
    for number, flow_name in enumerate(("\n", "pdca_recheck")):
        plan = await accept.put_plan(store, f"R{number}", batches_of([("strat.good", flow_name)], 25))
        left: Any = {
            "request_id": f"01JABCDEFGHJKMNPQRSTVWXYZ{number}", "tenant": "default", "client_id": "c",
            "reason": "r", "submitted_at": time.time(), "strategies": 1, "batches": 1, "dry_run": False,
        } | plan  # fmt: skip
        requests.append(await store.rechecks.create_request(Request(**left)))
    await store.close()
    async with recheck_face(config) as face, evaluating(config) as flow:
        over = await until_over(face, requests[1].request_id)
        assert over["status"] == "success"
    assert [given["request_id"] for given in flow.given] == [requests[1].request_id]


async def test_many_batches_are_started_behind_the_answer_with_their_plan_beside_them(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accept, "INLINE_STRATEGIES_MAX", 5)
    monkeypatch.setattr(accept, "STARTED_AT_ONCE_MAX", 1)
    monkeypatch.setattr(ended_batches, "STARTED_AT_ONCE_MAX", 1)
    async with recheck_face(config) as face, evaluating(config) as flow:
        for number in range(35):
            await face.put(f"/gui/strategies/more.{number}", json={"tags": ["more"]})
        wanted = {"filter": {"tags_any": ["more"]}, "reason": "x", "dry_run": False, "batch_size": 10}
        accepted = (await post(face, wanted, path="/pdca/recheck_all")).json()
        assert accepted["estimated"] == {"strategies": 35, "batches": 4}
        over = await until_over(face, accepted["request_id"])
        assert (over["status"], over["progress"]["completed_strategies"]) == ("success", 35)
    assert sorted(len(given["strategies"]) for given in flow.given) == [5, 10, 10, 10]


async def test_starting_twice_makes_one_run_and_an_outcome_is_written_once(store: Store) -> None:
    request = Request(
        request_id="R", tenant="t", client_id="c", reason="r", submitted_at=1.0, strategies=1, batches=1,
        dry_run=False,
    )  # fmt: skip
    assert await store.rechecks.create_request(request) == request
    again = Request(
        **{name: getattr(request, name) for name in Request.__struct_fields__} | {"reason": "other"}
    )
    assert await store.rechecks.create_request(again) == request
    executor = OwnWorkers(store)
    (batch,) = batches_of([("a", "f")], 25)
    await asyncio.gather(*(executor.start(request, 0, batch) for _ in range(5)))
    info = await store.jetstream.api(f"STREAM.INFO.{store.config.work_stream}")
    assert info["state"]["messages"] == 1
    results = [StrategyResult(strategy="a", health=health, digest="d") for health in StrategyHealth]
    written = [
        await store.rechecks.create_outcome(
            "t", BatchOutcome(request_id="R", batch=0, completed_at=1.0, results=(one,))
        )
        for one in results
    ]
    assert written == [True, False, False]


async def test_what_broke_between_the_request_and_its_runs_is_ended_by_the_same_key(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, tries = OwnWorkers.start, []

    async def break_once(executor: OwnWorkers, request: Request, number: int, batch: Any) -> None:
        tries.append(request.request_id)
        if len(tries) == 1:
            raise Unavailable("broken on purpose")
        await start(executor, request, number, batch)

    monkeypatch.setattr(OwnWorkers, "start", break_once)
    async with recheck_face(config) as face:
        key, body = new_ulid(), asked("strat.good", dry_run=False)
        expect_flat(await post(face, body, key=key), 502, "AIRFLOW_DOWN")
        assert (await face.get("/runs")).json() == []
        # Deleted meanwhile: what was stored counts, not what could be chosen now.
        assert (await face.delete("/gui/strategies/strat.good")).status_code == 204
        accepted = (await post(face, body, key=key)).json()
        assert tries == [accepted["request_id"]] * 2
        assert [run["run_id"] for run in (await face.get("/runs")).json()] == [accepted["dag"]["run_id"]]


async def test_what_is_too_old_is_forgotten_with_all_that_belongs_to_it() -> None:
    table = RecheckTable(None)
    reading = RecheckQueries(table)
    artifact = Artifact(kind="csv", name="n", content_type="text/csv", bytes_size=1, object="o")
    for name, at in (("OLD", 100.0), ("NEW", 200.0)):
        request = Request(
            request_id=name, tenant="t", client_id="c", reason="r", submitted_at=at, strategies=2, batches=2,
            dry_run=False,
        )  # fmt: skip
        write_request(table, request)
        result = StrategyResult(
            strategy="a", health=StrategyHealth.HEALTHY, digest="d", artifacts=(artifact,)
        )
        write_outcome(
            table, "t", int(at), BatchOutcome(request_id=name, batch=0, completed_at=at, results=(result,))
        )
    forget_older(table, 150.0)
    assert reading.request("OLD") is None
    assert reading.request("NEW") is not None
    assert (reading.tally("OLD").batches, reading.tally("NEW").batches) == (0, 1)
    assert [one.completed_at for one in reading.results("t", "a", 10)] == [200.0]
    assert [one.created_at for one in reading.artifacts_of("t", "a", 10)] == [200.0]
    assert table.rows("SELECT request_id FROM open_batches") == [("NEW",)]
