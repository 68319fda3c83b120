"""Runs that wait in a slot together until a gate is open, and what they have left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import RunStatus
from pyoco_server.operations.runs.submit import Submission, submit
from pyoco_server.store.store import Store
from pyoco_server.worker.slots import slot_runs
from tests.conftest import until
from tests.worker.slots.slot_stage import ended, lines

SPEC = f"{Path(__file__).with_name('interleaved_flows.py')}:resolve"
NEIGHBOURS = 5


@contextmanager
def patience() -> Iterator[pytest.MonkeyPatch]:
    """Runs stay where they are, however slow the machine is; until `undo`."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("TAKE_BACK_SEC", "LONG_SEC", "MOVE_BLOCKED_SEC", "MOVE_SEC"):
            patch.setattr(slot_runs, name, 1_000.0)
        yield patch


class Stage:
    """Runs that wait in a slot until the gate is open."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.store = store
        self.marks = folder / "marks"
        self.marks.touch()
        self.gate = folder / "gate"

    async def start(self, flow: str, who: str = "", tenant_id: str | None = None) -> str:
        params: dict[str, object] = {"marks": str(self.marks), "gate": str(self.gate), "who": who}
        wanted = Submission(flow_name=flow, params=params, tenant_id=tenant_id)
        return (await submit(self.store, wanted)).run.run_id

    async def neighbours(self, count: int = NEIGHBOURS) -> list[str]:
        run_ids = [await self.start("held", f"n{number}") for number in range(count)]
        await until(lambda: self.count("first") == count)
        return run_ids

    async def marked(self, word: str) -> int:
        """Waits for the mark; returns the process that made it."""
        await until(lambda: self.count(word) > 0)
        return self.pids(word).pop()

    def pids(self, word: str) -> set[int]:
        return {int(line.split()[-1]) for line in lines(self.marks) if line.startswith(word)}

    def count(self, word: str) -> int:
        return sum(line.startswith(word) for line in lines(self.marks))

    async def ended(self, *run_ids: str) -> list[Run]:
        return [await ended(self.store, run_id) for run_id in run_ids]

    async def expect_unharmed(self, run_ids: list[str]) -> None:
        """They complete, nothing is counted against them, and no task with a checkpoint ran again."""
        for run in await self.ended(*run_ids):
            assert (run.status, run.crashes, run.losses) == (RunStatus.COMPLETED, 0, 0), run.error
        tasks = Counter(line.rpartition(" ")[0] for line in lines(self.marks) if " n" in line)
        assert set(tasks.values()) == {1}
