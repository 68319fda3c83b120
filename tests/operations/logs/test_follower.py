"""A reader's way through a log, where the broker loses lines while the reader reads on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from pyoco_server.ids import new_token
from pyoco_server.operations.live.run_views import RunViews
from pyoco_server.operations.logs.cursors import LogPosition
from pyoco_server.operations.logs.follower import LogFollower, NewLines
from pyoco_server.operations.logs.views import LogViews
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.logs.chunks import Chunk
from pyoco_server.store.logs.writer import LogLine
from pyoco_server.store.store import Store
from tests.conftest import until
from tests.store.making import begun


async def test_what_was_being_read_is_forgotten_when_the_reader_begins_again(
    store: Store, read_model: ReadModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = (await begun(store)).run.run_id
    for number in range(1, 5):
        end = await store.logs.end(run_id)
        line = LogLine(0.0, "stdout", f"line {number}")
        await store.logs.append(run_id, end, [line], fence=1, chunk_id=new_token())
    views = LogViews(store, RunViews(store, read_model))
    view = await views.subscribe(run_id)
    view._forget_tail()
    is_held, goes_on = asyncio.Event(), asyncio.Event()
    whole = store.log_reader.from_place

    async def held(*args: Any, **options: Any) -> AsyncIterator[Chunk]:
        async for chunk in whole(*args, **options):
            is_held.set()
            await goes_on.wait()
            yield chunk

    follower = LogFollower(store, run_id, view, LogPosition(2, 0))
    with monkeypatch.context() as patch:
        patch.setattr(store.log_reader, "from_place", held)
        assert follower.take() is None
        await is_held.wait()
        view.losses += 1  # the broker came back without the end of the log
        follower.begin_again()
        goes_on.set()
        await until(lambda: not follower._is_reading)
    taken: list[tuple[int, bool]] = []
    while len(taken) < 4:
        new = await until(follower.take)
        assert isinstance(new, NewLines)
        taken.append((new.begin, new.lost))
    assert taken == [(1, False), (2, False), (3, False), (4, False)]
    follower.detach()
    views.unsubscribe(run_id, view)
