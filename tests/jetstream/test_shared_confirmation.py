from __future__ import annotations

import asyncio

import pytest

from pyoco_server.errors import Unavailable
from pyoco_server.jetstream.shared_confirmation import SharedConfirmation


class Broker:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[asyncio.Future[bool]] = []

    async def ask(self) -> bool:
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.asked.append(answer)
        return await answer


async def asked(sharing: SharedConfirmation, broker: Broker, count: int = 1) -> list[asyncio.Task[bool]]:
    tasks = [asyncio.create_task(sharing.ask("x", broker.ask)) for _ in range(count)]
    await asyncio.sleep(0)
    return tasks


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_those_who_come_while_one_asks_share_the_next_answer_and_not_this_one() -> None:
    sharing, broker = SharedConfirmation(), Broker()
    [first] = await asked(sharing, broker)
    others = await asked(sharing, broker, 20)
    broker.asked[0].set_result(False)
    assert not await first
    await settled()
    assert len(broker.asked) == 2
    broker.asked[1].set_result(True)
    assert all(await asyncio.gather(*others))
    assert (len(broker.asked), len(sharing)) == (2, 0)


async def test_a_question_without_an_answer_is_one_for_all_who_shared_it() -> None:
    """They do not wait for one timeout after the other."""
    sharing, broker = SharedConfirmation(), Broker()
    [first] = await asked(sharing, broker)
    others = await asked(sharing, broker, 3)
    broker.asked[0].set_result(True)
    await first
    await settled()
    broker.asked[1].set_exception(Unavailable("no majority"))
    ends = await asyncio.gather(*others, return_exceptions=True)
    assert [type(end) for end in ends] == [Unavailable] * 3
    assert len(broker.asked) == 2


async def test_whoever_leaves_before_the_answer_leaves_the_question_to_the_next() -> None:
    sharing, broker = SharedConfirmation(), Broker()
    [first] = await asked(sharing, broker)
    [second] = await asked(sharing, broker)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    await settled()
    broker.asked[1].set_result(True)
    assert await second
    assert len(sharing) == 0
