"""When runs are taken back from a slot: only time counts in which its process could have gone on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import pytest

from pyoco_server.worker.slots.control_page import ControlPage
from pyoco_server.worker.slots.slot_run import LeftSlot, SlotRun
from pyoco_server.worker.slots.slot_runs import STARVED_SEC_MAX, SlotRuns

CHECK_SEC = 0.002


@dataclass
class Process:
    """A process as the kernel describes it."""

    uses: float | None = 0.0  # the part of a core that it uses
    is_asleep: bool = False
    used_sec: float = 0.0

    def terminate(self) -> None:
        raise AssertionError("it is not ended")

    def is_blocked(self) -> bool:
        return self.is_asleep

    def processor_sec(self) -> float | None:
        return None if self.uses is None else self.used_sec


class Checked:
    """A slot with a run that has not begun, and a clock that the test moves."""

    def __init__(self) -> None:
        self.process = Process()
        self.runs = SlotRuns(self.process, cast(Any, None), 8, lambda: None)
        self.page = ControlPage.open(self.runs.page_path)  # as the slot has it
        self.run: SlotRun = self.runs.add(cast(Any, None), cast(Any, None), 0.0001)
        self._now = 100.0
        self.pass_time(CHECK_SEC)
        self.runs.note_sent()

    def pass_time(self, for_sec: float) -> None:
        for _ in range(round(for_sec / CHECK_SEC)):
            self._now += CHECK_SEC
            self.process.used_sec += CHECK_SEC * (self.process.uses or 0.0)
            self.runs.check(self._now)

    @property
    def is_taken_back(self) -> bool:
        return self.run.left.done() and self.run.left.result() is LeftSlot.UNBEGUN


@pytest.fixture
async def slot() -> Any:
    return Checked()


@pytest.fixture(autouse=True)
def closed(slot: Checked) -> Iterator[None]:
    yield
    slot.page.close()
    slot.runs.close()


@pytest.mark.parametrize(
    "process", [Process(uses=1.0), Process(is_asleep=True), Process(uses=None)], ids=["busy", "asleep", "?"]
)
async def test_a_run_leaves_a_process_that_does_not_come_to_it(slot: Checked, process: Process) -> None:
    vars(slot.process).update(vars(process))
    slot.pass_time(0.006)
    assert slot.is_taken_back


async def test_a_run_stays_in_a_process_that_waits_for_a_core(slot: Checked) -> None:
    slot.pass_time(STARVED_SEC_MAX * 0.9)
    assert not slot.run.left.done()
    slot.pass_time(STARVED_SEC_MAX)
    assert slot.is_taken_back


async def test_code_that_waits_for_a_core_does_not_count_as_long(slot: Checked) -> None:
    slot.page.enter(slot.run.number)
    slot.pass_time(STARVED_SEC_MAX * 0.9)
    assert slot.run.stretch_sec is not None
    slot.process.uses = 1.0
    slot.pass_time(0.03)
    assert slot.run.stretch_sec is None


async def test_time_before_a_run_was_sent_does_not_count(slot: Checked) -> None:
    slot.process.is_asleep = True
    for _ in range(50):  # each time it makes a step, and is sent something just before the next check
        slot.page.enter(slot.run.number)
        slot.page.leave()
        slot.runs.note_sent()
        slot.pass_time(CHECK_SEC)
    assert not slot.run.left.done()
