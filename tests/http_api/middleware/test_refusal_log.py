"""The line of a refused answer: what it says of errors that nobody expected, and how many there may be."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api.middleware import refusal_log
from pyoco_server.http_api.middleware.refusal_log import LineBudget
from pyoco_server.jetstream.errors import AnswerLost
from tests.conftest import until
from tests.http_api.serving import serving

SECRET = "s3cr3t-of-a-request"
NOBODY = "00000000-0000-4000-8000-000000000000"
REFUSED = (422, "ERR-PYOCO-0002")


@pytest.fixture(autouse=True)
def _heard(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.INFO):
        yield


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [vars(record) for record in caplog.records if record.name == refusal_log.__name__]


def broken(*_: Any, **__: Any) -> Any:
    raise RuntimeError(f"cannot work with {SECRET}")


@pytest.mark.parametrize("path", ["/runs", "/workers", "/jobs", "/gui/strategies"])
async def test_an_unexpected_error_is_one_error_line_with_its_traceback_and_without_proofs(
    config: NatsBackendConfig,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
) -> None:
    async with serving(config) as client:
        gateway = client._transport.app.state.gateway  # type: ignore[attr-defined]
        monkeypatch.setattr(gateway, "check", broken)
        caplog.clear()
        answer = await client.get(path, headers={"X-API-Key": SECRET})
        assert answer.status_code == 500
        assert SECRET not in answer.text
    (line,) = [one for one in lines(caplog) if one["http_status"] == 500]
    assert (line["levelname"], line["method"], line["path"]) == ("ERROR", "GET", path)
    assert line["x_request_id"] == answer.headers["x-request-id"]
    assert (line["err_id"], line["exc_type"]) == (None, "RuntimeError")
    assert line["exc_message"] == "cannot work with hidden"
    assert "in broken" in line["exc_traceback"]
    assert SECRET not in line["exc_traceback"]
    assert line["exc_origin"]["func"] == "broken"
    assert [one for one in caplog.records if "ASGI" in one.getMessage()] == []


async def test_the_error_of_a_refusal_does_not_quote_what_led_to_it(
    config: NatsBackendConfig, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(config) as client:
        yaml = {"workflow": ("flow.yaml", f"flow: [{SECRET}: {{".encode(), "application/yaml")}
        assert (await client.post("/runs/yaml", data={"flow_name": "f"}, files=yaml)).status_code == 422
    (line,) = [one for one in lines(caplog) if one["http_status"] == 422]
    assert line["exc_traceback"]
    assert SECRET not in repr(line)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (f"/runs/{NOBODY}", "run_id"),
        (f"/runs/{NOBODY}/tasks", "run_id"),
        (f"/jobs/{NOBODY}", "run_id"),
        (f"/executions/{NOBODY}", "run_id"),
        (f"/workers/{NOBODY}", "worker_id"),
    ],
)
async def test_a_refusal_says_which_run_or_worker_it_is_about(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture, path: str, name: str
) -> None:
    answer = await (client.patch(path, json={"hidden": True}) if name == "worker_id" else client.get(path))
    assert answer.status_code == 404
    (line,) = [one for one in lines(caplog) if one["http_status"] == 404]
    assert line[name] == NOBODY


async def test_a_traceback_names_our_modules_and_our_buckets(
    config: NatsBackendConfig, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = f"$KV.pyoco_runs.{NOBODY}"

    def away(*_: Any, **__: Any) -> Any:
        raise AnswerLost(subject)

    async with serving(config) as client:
        caplog.clear()  # of what is said while it starts
        monkeypatch.setattr(client._transport.app.state.gateway, "check", away)  # type: ignore[attr-defined]
        assert (await client.get(f"/runs/{NOBODY}")).status_code == 503
    (line,) = [one for one in lines(caplog) if one["http_status"] == 503]
    assert "pyoco_server.jetstream.errors.AnswerLost: " in line["exc_traceback"]
    assert subject in line["exc_message"]


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_a_flood_of_one_caller_is_counted_and_costs_no_other_its_lines(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    budget = LineBudget("refusals were not logged one by one", clock)
    written = sum(budget.allows("10.0.0.1", REFUSED) for _ in range(3_000))
    assert written == refusal_log.CALLER_LINES_BURST
    assert budget.allows("10.0.0.2", REFUSED)
    clock.now += 1
    again = sum(budget.allows("10.0.0.1", REFUSED) for _ in range(3_000))
    assert again == refusal_log.CALLER_LINES_PER_SEC
    budget.report()
    (line,) = lines(caplog)
    assert line["left_out"] == 6_000 - written - again
    assert line["counts"] == [{"http_status": 422, "err_id": "ERR-PYOCO-0002", "count": line["left_out"]}]
    budget.report()
    assert len(lines(caplog)) == 1


async def test_a_flood_of_many_callers_is_bounded_too() -> None:
    budget = LineBudget("refusals were not logged one by one", Clock())
    written = sum(budget.allows(f"10.0.{n // 250}.{n % 250}", REFUSED) for n in range(20_000))
    assert written == refusal_log.ALL_LINES_BURST
    assert len(budget._callers) == refusal_log.CALLERS_MAX


async def test_a_flood_over_http_leaves_as_many_lines_as_allowed_and_says_how_many_are_missing(
    config: NatsBackendConfig, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusal_log, "CALLER_LINES_BURST", 5)
    monkeypatch.setattr(refusal_log, "CALLER_LINES_PER_SEC", 0.0)
    monkeypatch.setattr(refusal_log, "LEFT_OUT_EVERY_SEC", 0.05)
    async with serving(config) as client:
        await refused_times(client, 12)
        await until(lambda: left_out(caplog) == 7)
    told = [one for one in lines(caplog) if one["message"] == "request refused"]
    assert len(told) == 5


def left_out(caplog: pytest.LogCaptureFixture) -> int:
    told = [one for one in lines(caplog) if one["message"].startswith("refusals were not")]
    return sum(one["left_out"] for one in told)


async def refused_times(client: httpx.AsyncClient, times: int) -> None:
    for _ in range(times):
        assert (await client.get("/nothing")).status_code == 404
