"""Airflow as executor, against a small server that speaks the documented part of its REST API."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import ConfigError
from pyoco_server.ids import new_ulid
from pyoco_server.operations.rechecks import airflow
from pyoco_server.operations.rechecks.airflow import Airflow, AirflowReason, AirflowTrouble
from pyoco_server.operations.rechecks.context import EndedBatch, NotEnded, RecheckCounters
from pyoco_server.recheck.records import Batch
from pyoco_server.recheck.records import Request as RecheckRequest
from tests.conftest import NatsServer, free_port, until
from tests.http_api.live import _Server
from tests.recheck.faces import asked, expect_flat, post, recheck_config, recheck_face, until_over
from tests.recheck.stage import GOOD

RUNS = "/api/v2/dags/pdca_recheck/dagRuns"


class Airfield:
    """DAG runs by id, as Airflow keeps them. `trouble`: statuses to answer with before anything else."""

    def __init__(self) -> None:
        self.runs: dict[str, dict[str, Any]] = {}
        self.asked: list[tuple[str, str]] = []
        self.trouble: list[int] = []
        self.authorization: set[str | None] = set()
        self.traced: list[tuple[str | None, str | None]] = []
        self.url = ""

    def app(self) -> Starlette:
        one = f"{RUNS}/{{run_id}}"
        xcom = f"{one}/taskInstances/evaluate/xcomEntries/return_value"
        return Starlette(
            routes=[
                Route(RUNS, self._noted(self._trigger), methods=["POST"]),
                Route(one, self._noted(self._get)),
                Route(xcom, self._noted(self._returned)),
            ]
        )

    def finish(self, run_id: str, state: str = "success") -> None:
        self.runs[run_id] |= {"state": state, "end_date": "2026-01-02T03:04:05.678Z"}

    def _noted(self, act: Any) -> Any:
        async def answer(request: Request) -> Response:
            self.asked.append((request.method, request.url.path))
            self.authorization.add(request.headers.get("authorization"))
            if self.trouble:
                return JSONResponse({"detail": "trouble"}, self.trouble.pop(0))
            response: Response = await act(request)
            return response

        return answer

    async def _trigger(self, request: Request) -> Response:
        body = await request.json()
        self.traced.append((request.headers.get("x-correlation-id"), request.headers.get("traceparent")))
        if body["dag_run_id"] in self.runs:
            return JSONResponse({"detail": "exists"}, 409)
        self.runs[body["dag_run_id"]] = body | {"state": "queued"}
        return JSONResponse(self.runs[body["dag_run_id"]])

    async def _get(self, request: Request) -> Response:
        run = self.runs.get(request.path_params["run_id"])
        return JSONResponse(run) if run else JSONResponse({"detail": "none"}, 404)

    async def _returned(self, request: Request) -> Response:
        strategies = self.runs[request.path_params["run_id"]]["conf"]["strategies"]
        value = json.dumps({one: {"metrics": GOOD} for one in strategies})
        return JSONResponse({"key": "return_value", "value": value})


@asynccontextmanager
async def an_airfield() -> AsyncIterator[Airfield]:
    field, port = Airfield(), free_port()
    server = _Server(uvicorn.Config(field.app(), port=port, log_config=None, lifespan="off"))
    serving = asyncio.create_task(server.serve())
    await until(lambda: server.started)
    field.url = f"http://127.0.0.1:{port}"
    yield field
    server.should_exit = True
    await serving


async def test_a_request_is_triggered_asked_after_and_judged(
    nats_server: NatsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(airflow, "REQUESTS_PER_SEC", 500.0)
    monkeypatch.setattr(Airflow, "ask_every_sec", 0.1)
    async with an_airfield() as field:
        config = recheck_config(
            nats_server, tmp_path, recheck_executor="airflow", airflow_url=field.url, airflow_token="t0ken"
        )
        key = new_ulid()
        async with recheck_face(config) as face:
            accepted = (await post(face, asked("strat.a", "strat.b", dry_run=False), key=key)).json()
            run_id = accepted["dag"]["run_id"]
            assert field.runs[run_id]["conf"]["strategies"] == ["strat.a", "strat.b"]
            assert field.runs[run_id]["conf"]["request_id"] == accepted["request_id"]
            assert (await face.get("/runs")).json() == []
            field.finish(run_id)
            over = await until_over(face, accepted["request_id"])
            assert (over["status"], over["summary"]["health"]["healthy"]) == ("success", 2)
            assert over["last_update"] >= over["submitted_at"]
            said = (await face.get("/metrics")).text
            assert 'airflow_adapter_requests_total{endpoint="dagRuns.post",outcome="ok"} 1\n' in said
        assert field.authorization == {"Bearer t0ken"}


async def test_airflow_is_told_which_request_it_works_for(
    nats_server: NatsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(airflow, "REQUESTS_PER_SEC", 500.0)
    traced = {"X-Correlation-Id": "order-17", "traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}
    async with an_airfield() as field:
        config = recheck_config(nats_server, tmp_path, recheck_executor="airflow", airflow_url=field.url)
        async with recheck_face(config) as face:
            accepted = (await post(face, asked("strat.a", dry_run=False), **traced)).json()
            untraced = (await post(face, asked("strat.b", dry_run=False))).json()
        conf = field.runs[accepted["dag"]["run_id"]]["conf"]
        assert (conf["correlation_id"], conf["traceparent"]) == tuple(traced.values())
        assert field.traced[0] == tuple(traced.values())
        conf = field.runs[untraced["dag"]["run_id"]]["conf"]
        assert conf["correlation_id"] == untraced["request_id"]
        assert "traceparent" not in conf
        assert field.traced[1] == (untraced["request_id"], None)


async def test_trouble_is_502_and_the_same_key_goes_on(
    nats_server: NatsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(airflow, "REQUESTS_PER_SEC", 500.0)
    monkeypatch.setattr(airflow, "BACKOFF_SEC", 0.001)
    async with an_airfield() as field:
        config = recheck_config(
            nats_server,
            tmp_path,
            recheck_executor="airflow",
            airflow_url=field.url,
            airflow_user="u",
            airflow_password="p",
            housekeeping_interval_sec=100.0,
        )
        async with recheck_face(config) as face:
            key, body = new_ulid(), asked(dry_run=False)
            field.trouble = [401]
            said = expect_flat(await post(face, body, key=key), 502, "AIRFLOW_DOWN")["message"]
            assert "unauthorised" in said
            accepted = await post(face, body, key=key)
            assert accepted.status_code == 202
            assert (await post(face, body, key=key)).content == accepted.content
            assert len([one for one in field.runs.values() if one["conf"]["strategies"]]) == 1
        assert all(str(one).startswith("Basic ") for one in field.authorization)


@pytest.mark.parametrize(
    ("statuses", "reason", "tries"),
    [
        ([400], AirflowReason.BAD_REQUEST, 1),
        ([404], AirflowReason.BAD_REQUEST, 1),
        ([422], AirflowReason.BAD_REQUEST, 1),
        ([401], AirflowReason.UNAUTHORISED, 1),
        ([403], AirflowReason.UNAUTHORISED, 1),
        ([500], AirflowReason.ERROR, 1),
        ([503, 502, 429], AirflowReason.DOWN, 3),
        ([504, 408, 504], AirflowReason.TIMEOUT, 3),
        ([503, 503], None, 3),
        ([409], None, 1),
    ],
)
async def test_every_trouble_has_its_reason(
    monkeypatch: pytest.MonkeyPatch, statuses: list[int], reason: AirflowReason | None, tries: int
) -> None:
    monkeypatch.setattr(airflow, "REQUESTS_PER_SEC", 500.0)
    monkeypatch.setattr(airflow, "BACKOFF_SEC", 0.001)
    async with an_airfield() as field:
        field.trouble = list(statuses)
        await _expect_start(field.url, reason)
        assert len(field.asked) == tries


async def _expect_start(url: str, reason: AirflowReason | None) -> None:
    observed = RecheckCounters()
    adapter = Airflow(NatsBackendConfig(recheck_executor="airflow", airflow_url=url), observed)
    try:
        if reason is None:
            await adapter.start(a_request(), 0, Batch("f", ("a",)))
        else:
            with pytest.raises(AirflowTrouble) as trouble:
                await adapter.start(a_request(), 0, Batch("f", ("a",)))
            assert trouble.value.reason is reason
            assert observed.airflow["dagRuns.post", reason.value] >= 1
    finally:
        await adapter.stop()


def a_request() -> RecheckRequest:
    return RecheckRequest(
        request_id="R", tenant="t", client_id="c", reason="r", submitted_at=1.0, strategies=1, batches=1,
        dry_run=False,
    )  # fmt: skip


async def test_nobody_there_and_nobody_who_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(airflow, "REQUESTS_PER_SEC", 500.0)
    monkeypatch.setattr(airflow, "BACKOFF_SEC", 0.001)
    monkeypatch.setattr(airflow, "TRY_SEC", 0.05)
    monkeypatch.setattr(airflow, "BUDGET_SEC", 0.5)
    await _expect_start(f"http://127.0.0.1:{free_port()}", AirflowReason.DOWN)

    async def be_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(be_silent, "127.0.0.1", 0) as server:
        await _expect_start(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", AirflowReason.TIMEOUT)


async def test_how_a_dag_run_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(airflow, "REQUESTS_PER_SEC", 500.0)
    async with an_airfield() as field:
        adapter = Airflow(
            NatsBackendConfig(recheck_executor="airflow", airflow_url=field.url + "/"), RecheckCounters()
        )
        assert await adapter.read_end("nobody") is NotEnded.MISSING
        await adapter.start(a_request(), 0, Batch("f", ("a",)))
        (run_id,) = field.runs
        assert await adapter.read_end(run_id) is NotEnded.RUNNING
        field.finish(run_id)
        assert await adapter.read_end(run_id) == EndedBatch(1767323045.678, output={"a": {"metrics": GOOD}})
        field.finish(run_id, "failed")
        assert await adapter.read_end(run_id) == EndedBatch(1767323045.678, error="the DAG run ended failed")
        await adapter.stop()


async def test_requests_are_spaced(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    real_sleep = asyncio.sleep

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        await real_sleep(0)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    adapter = Airflow(
        NatsBackendConfig(recheck_executor="airflow", airflow_url="http://x"), RecheckCounters()
    )
    for _ in range(6):
        await adapter._throttle()
    assert waits[0] == 0
    assert waits[5] == pytest.approx(1.0, abs=0.2)
    await adapter.stop()


def test_airflow_needs_an_address() -> None:
    with pytest.raises(ConfigError, match="PYOCO_AIRFLOW_URL"):
        NatsBackendConfig(recheck_executor="airflow")
    shown = repr(
        NatsBackendConfig(recheck_executor="airflow", airflow_url="http://u:p@x", airflow_token="t0ken")
    )
    assert "t0ken" not in shown
    assert "u:p" not in shown
