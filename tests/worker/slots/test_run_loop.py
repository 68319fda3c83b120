"""When a slot takes the lock of its control page: to let a run go on, and to read what was taken back."""

from __future__ import annotations

from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any, cast

import pytest

from pyoco_server.worker.slots.child_link import LinkReader, LinkWriter
from pyoco_server.worker.slots.control_page import ControlPage
from pyoco_server.worker.slots.output import Output
from pyoco_server.worker.slots.run_loop import RunLoop


class Waiting(Exception):
    """The slot would wait for a message now."""


class Reader:
    def wait_for(self, _mailbox: SimpleQueue[Any], _timeout_sec: float | None = None) -> Any:
        raise Waiting


class Writer:
    def flush_awaited(self) -> None:
        return None


class CountingPage(ControlPage):
    locks = 0

    def lock(self) -> None:
        self.locks += 1
        super().lock()


@pytest.fixture
def page() -> Iterator[CountingPage]:
    page = CountingPage.create()
    assert isinstance(page, CountingPage)
    yield page
    page.close()


@pytest.fixture
def loop(page: CountingPage) -> RunLoop:
    made = RunLoop(
        cast(LinkReader, Reader()), cast(LinkWriter, Writer()), cast(Output, None), lambda _run: None
    )
    made.use_page(page)
    return made


def test_a_slot_without_a_run_that_can_go_on_waits_without_the_lock(
    loop: RunLoop, page: CountingPage
) -> None:
    with pytest.raises(Waiting):
        loop.run_forever()
    assert page.locks == 0


def test_what_was_taken_back_is_read_with_the_lock_before_the_slot_waits(
    loop: RunLoop, page: CountingPage
) -> None:
    page.revoke(2, 7)
    with pytest.raises(Waiting):
        loop.run_forever()
    assert (page.locks, page.has_revoked, page.is_lane_free(2)) == (1, False, True)
    assert page.try_lock()
