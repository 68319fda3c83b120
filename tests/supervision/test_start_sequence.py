"""Services start in order with retries, never twice, and stop in reverse order."""

import asyncio
import logging

import pytest

from pyoco_server.errors import ConfigError, Unavailable
from pyoco_server.supervision import Service, Services
from tests.conftest import until

PATIENCE_SEC = 5.0


class Recorded:
    """Services that write down what is done to them."""

    def __init__(self) -> None:
        self.acts: list[str] = []

    def service(self, name: str, *fails: Exception, why_not: str | None = None) -> Service:
        errors = list(fails)

        async def start() -> None:
            if errors:
                raise errors.pop(0)
            self.acts.append(f"start {name}")

        async def stop() -> None:
            self.acts.append(f"stop {name}")

        return Service(name, start, stop, lambda: self.acts.append(f"reconnected {name}"), lambda: why_not)


async def until_started(services: Services) -> None:
    await until(lambda: services.all_started)


async def test_they_start_in_order_and_stop_in_reverse() -> None:
    recorded = Recorded()
    services = Services([recorded.service("a"), recorded.service("b")])
    services.start()
    services.start()
    await until_started(services)
    services.handle_reconnect()
    await services.stop()
    await services.stop()
    started = ["start a", "start b", "reconnected a", "reconnected b"]
    assert recorded.acts == [*started, "stop b", "stop a"]


@pytest.mark.parametrize("error", [Unavailable("away"), RuntimeError("defect")])
async def test_a_step_that_fails_is_repeated_and_the_ones_before_it_are_not(error: Exception) -> None:
    recorded = Recorded()
    services = Services([recorded.service("a"), recorded.service("b", error), recorded.service("c")])
    services.start()
    await until_started(services)
    await services.stop()
    assert recorded.acts == ["start a", "start b", "start c", "stop c", "stop b", "stop a"]


async def test_what_is_not_started_yet_is_named_with_its_reason() -> None:
    recorded = Recorded()
    endless = [Unavailable("no leader")] * 1000
    services = Services([recorded.service("a", why_not="a lags"), recorded.service("b", *endless)])
    services.start()
    await until(lambda: "b: no leader" in services.reasons())
    assert list(services.reasons()) == ["a lags", "b: no leader"]
    async with asyncio.timeout(PATIENCE_SEC):
        await services.stop()
    assert recorded.acts == ["start a", "stop b", "stop a"]


async def test_a_wrong_setting_is_an_error_at_once(caplog: pytest.LogCaptureFixture) -> None:
    services = Services([Recorded().service("a", *[ConfigError("PYOCO_X cannot be read.")] * 3)])
    services.start()
    await until(lambda: "a: PYOCO_X cannot be read." in services.reasons())
    await services.stop()
    assert [one.levelno for one in caplog.records] == [logging.ERROR]


async def test_a_start_that_is_cut_off_by_stop_is_stopped_too() -> None:
    acts = []

    async def start() -> None:
        acts.append("begun")
        await asyncio.Event().wait()

    async def stop() -> None:
        acts.append("stopped")

    services = Services([Service("a", start, stop)])
    services.start()
    await asyncio.sleep(0.01)
    async with asyncio.timeout(PATIENCE_SEC):
        await services.stop()
    assert acts == ["begun", "stopped"]


async def test_one_that_fails_to_stop_or_to_take_a_reconnect_does_not_keep_the_others() -> None:
    recorded = Recorded()

    async def stop() -> None:
        raise RuntimeError

    def handle_reconnect() -> None:
        raise RuntimeError

    broken = Service("broken", stop=stop, handle_reconnect=handle_reconnect)
    services = Services([recorded.service("a"), broken, recorded.service("c")])
    services.start()
    await until_started(services)
    services.handle_reconnect()
    await services.stop()
    assert recorded.acts == ["start a", "start c", "reconnected a", "reconnected c", "stop c", "stop a"]


async def test_what_passes_is_tried_again_and_any_other_failure_reaches_the_caller() -> None:
    recorded = Recorded()
    services = Services([recorded.service("a", Unavailable("away")), recorded.service("b")])
    await services.start_or_raise(lambda error: isinstance(error, Unavailable))
    assert services.all_started
    await services.stop()
    assert recorded.acts == ["start a", "start b", "stop b", "stop a"]

    recorded = Recorded()
    failing = Services([recorded.service("a"), recorded.service("b", RuntimeError("broken"))])
    with pytest.raises(RuntimeError):
        await failing.start_or_raise(lambda error: isinstance(error, Unavailable))
    assert recorded.acts == ["start a", "stop b", "stop a"]
