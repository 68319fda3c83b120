from __future__ import annotations

import asyncio

from pyoco_server.worker.places import Place, Places


async def taken(places: Places) -> Place | None:
    try:
        return await asyncio.wait_for(places.take(), 0.01)
    except TimeoutError:
        return None


async def test_there_are_as_many_places_as_slots() -> None:
    places = Places(2)
    first, second = await taken(places), await taken(places)
    assert first is not None
    assert second is not None
    assert await taken(places) is None
    first.release()
    first.release()
    assert await taken(places) is not None
    assert await taken(places) is None


async def test_short_runs_share_places_and_a_whole_one_is_left_for_the_next_job() -> None:
    places, count = Places(8), 0
    while (place := await taken(places)) is not None:
        place.share()
        count += 1
    assert count == 22


async def test_a_run_that_is_not_as_short_as_expected_takes_a_whole_place() -> None:
    places = Places(1)
    run = await taken(places)
    assert run is not None
    run.share()
    run.occupy()
    run.release()
    run.occupy()
    assert await taken(places) is not None


async def test_whoever_waits_first_is_served_first() -> None:
    places = Places(1)
    run = await places.take()
    order: list[int] = []

    async def wait(number: int) -> None:
        place = await places.take()
        order.append(number)
        place.release()

    waiting = [asyncio.create_task(wait(number)) for number in range(4)]
    await asyncio.sleep(0)
    waiting[1].cancel()
    run.release()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert order == [0, 2, 3]


async def test_a_place_is_given_to_the_first_that_waits_and_no_other_is_woken() -> None:
    places = Places(2)
    runs = [await places.take(), await places.take()]
    waiting = [asyncio.create_task(places.take()) for _ in range(3)]
    await asyncio.sleep(0)
    runs[0].share()  # two of three shares are free: not a whole place
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)
    runs[0].release()
    late = asyncio.create_task(places.take())  # does not overtake
    await asyncio.sleep(0)
    assert [task.done() for task in waiting] == [True, False, False]
    assert not late.done()
    for task in (*waiting[1:], late):
        task.cancel()


async def test_a_place_of_a_cancelled_caller_goes_to_the_next() -> None:
    places = Places(1)
    run = await places.take()
    first, second = asyncio.create_task(places.take()), asyncio.create_task(places.take())
    await asyncio.sleep(0)
    run.release()  # the first one has its place now, and has not gone on
    first.cancel()
    place = await second
    assert first.cancelled()
    place.release()
    assert await taken(places) is not None


async def test_a_place_can_be_taken_although_none_is_free() -> None:
    places = Places(1)
    first, second = await places.take(), places.take_now()
    first.release()
    assert await taken(places) is None
    second.release()
    assert await taken(places) is not None
