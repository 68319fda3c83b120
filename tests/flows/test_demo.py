"""The demo flows do what their descriptions promise."""

import threading
import time
from typing import Any

import pytest

from pyoco_server.engine import Engine, OutcomeStatus
from pyoco_server.flows import demo
from tests.engine.building import Background, await_signal


def run(flow_name: str, **params: Any) -> Any:
    return Engine().run(demo.resolver(flow_name), params)


def test_hello_greets_by_name_and_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("hello", name="Ada").results == {"greet": "Hello, Ada!"}
    assert run("hello").results == {"greet": "Hello, world!"}
    assert capsys.readouterr().out == "Hello, Ada!\nHello, world!\n"


def test_parallel_adds_up_its_four_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    together = threading.Barrier(4)  # the parts get past it only side by side
    monkeypatch.setattr("pyoco_server.flows.demo.time.sleep", lambda _: together.wait(10))
    assert run("parallel").results["total"] == 10


def test_ticker_prints_a_line_a_second(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "TICK_SEC", 0.001)
    assert run("ticker", seconds=3).results == {"tick": 3}
    assert capsys.readouterr().out.splitlines() == [f"tick {n} of 3" for n in (1, 2, 3)]
    assert run("ticker").results == {"tick": 60}


def test_ticker_returns_soon_after_a_cancel(monkeypatch: pytest.MonkeyPatch) -> None:
    ticking = threading.Event()
    naps: list[float] = []
    nap = time.sleep

    def sleep(seconds: float) -> None:
        naps.append(seconds)
        ticking.set()
        nap(seconds)

    monkeypatch.setattr("pyoco_server.flows.demo.time.sleep", sleep)
    with Background(Engine(), demo.resolver("ticker"), params={"seconds": 3600}) as ticker:
        await_signal(ticking)
        ticker.cancel()
        outcome = ticker.outcome()
    assert (outcome.status, outcome.results) == (OutcomeStatus.CANCELLED, {"tick": 1})
    assert max(naps) <= demo.CANCEL_CHECK_SEC


def test_fails_fails_in_its_second_task_and_says_so() -> None:
    outcome = run("fails")
    assert (outcome.status, outcome.failed_task) == (OutcomeStatus.FAILED, "explode")
    assert outcome.results == {"prepare": "prepared"}
    assert "on purpose" in outcome.error


def test_every_described_flow_exists_and_is_built_anew_each_time() -> None:
    for name, description in demo.DEMO_FLOWS.items():
        first, second = demo.resolver(name), demo.resolver(name)
        assert first.name == name
        assert "\n" not in description
        assert {id(task) for task in first.tasks}.isdisjoint(id(task) for task in second.tasks)


def test_an_unknown_flow_is_a_key_error_that_names_those_there_are() -> None:
    with pytest.raises(KeyError, match="hello, parallel, ticker, fails"):
        demo.resolver("nope")


def test_release_waits_for_an_approval_and_then_deploys() -> None:
    parked = run("release", version="2.0")
    assert (parked.status, parked.waiting) == (OutcomeStatus.PARKED, ("approve",))
    recorded = {"build": "2.0", "approve": {"by": "you"}}
    ended = Engine().run(demo.resolver("release"), recorded=recorded)
    assert (ended.status, ended.results["deploy"]) == (OutcomeStatus.COMPLETED, "2.0 is out")
