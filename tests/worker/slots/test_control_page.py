"""The page that a slot and its worker share: the slot lets a run go on, or the worker takes it back."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator

import pytest

from pyoco_server.worker.slots.control_page import LANES, ControlPage, LaneState


@pytest.fixture
def pages() -> Iterator[tuple[ControlPage, ControlPage]]:
    worker = ControlPage.create()
    slot = ControlPage.open(worker.path)
    yield worker, slot
    slot.close()
    worker.close()


def test_the_worker_gets_the_lock_only_while_the_slot_does_not_choose(
    pages: tuple[ControlPage, ControlPage],
) -> None:
    worker, slot = pages
    slot.lock()
    assert not worker.try_lock()
    slot.unlock()
    assert worker.try_lock()
    worker.unlock()


def test_what_the_worker_takes_back_is_read_once(pages: tuple[ControlPage, ControlPage]) -> None:
    worker, slot = pages
    worker.revoke(3, 17)
    worker.revoke(LANES - 1, 18)
    assert not worker.is_lane_free(3)
    assert slot.has_revoked
    assert slot.take_revoked() == [17, 18]
    assert not slot.has_revoked
    assert slot.take_revoked() == []
    assert worker.is_lane_free(3)


def test_the_worker_sees_whose_code_is_executing(pages: tuple[ControlPage, ControlPage]) -> None:
    worker, slot = pages
    slot.set_state(2, LaneState.BEGUN)
    slot.enter(7)
    assert (worker.executing, worker.is_in_code, worker.state(2)) == (7, True, LaneState.BEGUN)
    slot.leave()
    assert (worker.executing, worker.is_in_code, worker.steps) == (7, False, 2)


def test_a_process_that_dies_releases_the_lock_and_leaves_what_it_has_written() -> None:
    worker = ControlPage.create()
    process = multiprocessing.get_context("spawn").Process(target=_die_with_lock, args=(worker.path,))
    process.start()
    process.join()
    assert (worker.executing, worker.try_lock()) == (5, True)
    worker.close()


def _die_with_lock(path: str) -> None:
    page = ControlPage.open(path)
    page.lock()
    page.enter(5)
    os._exit(1)
