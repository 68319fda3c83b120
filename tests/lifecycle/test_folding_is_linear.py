"""A long log costs its length: tasks are copied once per fold, however many events change them."""

import pytest

from pyoco_server.lifecycle import events as e
from pyoco_server.lifecycle import reduce as reduce_module
from pyoco_server.lifecycle import snapshot_size
from pyoco_server.lifecycle.reduce import fold
from pyoco_server.lifecycle.run import TaskRecord
from pyoco_server.lifecycle.status import TaskStatus
from pyoco_server.lifecycle.task_board import OnPut, TaskBoard
from tests.lifecycle.support.alphabet import AT, run_after, submitted

LONG = 10_000


class CountingBoard(TaskBoard):
    boards = 0
    copies = 0

    def __init__(self, records: dict[str, TaskRecord], on_put: OnPut) -> None:
        super().__init__(records, on_put)
        type(self).boards += 1

    def __setattr__(self, name: str, value: object) -> None:
        if name == "records" and hasattr(self, "records"):
            type(self).copies += 1
        super().__setattr__(name, value)


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> type[CountingBoard]:
    class Counting(CountingBoard):
        pass

    monkeypatch.setattr(reduce_module, "TaskBoard", Counting)
    return Counting


def task_events() -> list[e.Event]:
    started = (e.TaskStarted(at=AT, task=f"t{n}", attempt=1) for n in range(LONG // 2))
    ended = (e.TaskSucceeded(at=AT, task=f"t{n}", attempt=1, started_at=AT) for n in range(LONG // 2))
    return [event for pair in zip(started, ended, strict=True) for event in pair]


def test_a_log_of_ten_thousand_task_events_copies_the_tasks_once(counting: type[CountingBoard]) -> None:
    run = fold(None, [submitted(), *task_events()])
    assert run is not None
    assert (len(run.tasks), counting.boards, counting.copies) == (LONG // 2, 1, 1)
    assert {record.state for record in run.tasks.values()} == {TaskStatus.SUCCEEDED}


def test_events_that_change_no_task_copy_none(counting: type[CountingBoard]) -> None:
    run = fold(None, [submitted(), *task_events()[:2]])
    assert run is not None
    tags: list[e.Event] = [e.TagAdded(at=AT, tag=str(n % 5)) for n in range(100)]
    counting.copies = 0
    tagged = fold(run, tags)
    assert tagged is not None
    assert tagged.tasks is run.tasks
    assert counting.copies == 0


def test_the_state_a_fold_began_with_keeps_its_tasks() -> None:
    run = run_after()
    fold(run, task_events())
    assert run.tasks == {}


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes were encoded to know the size of the snapshot, each time."""
    sizes: list[int] = []
    measure = snapshot_size.json_bytes

    def counting(value: object) -> int:
        sizes.append(measure(value))
        return sizes[-1]

    monkeypatch.setattr(snapshot_size, "json_bytes", counting)
    return sizes


def test_a_payload_is_measured_when_it_comes_and_not_with_every_event_after_it(encoded: list[int]) -> None:
    large = 100_000
    taken = e.TaskStarted(at=AT, task="a", attempt=1, worker_id="w", inputs={"x": "x" * large})
    reports = [e.TaskProgressed(at=AT, task="a", progress=float(n), message="m") for n in range(LONG // 10)]
    assert fold(None, [submitted(), taken, *reports]) is not None
    assert sum(encoded) < 2 * large + 500 * len(reports)


def test_tasks_and_deadlines_that_stay_as_they_are_are_not_measured_again(encoded: list[int]) -> None:
    count = LONG // 10
    taken = [e.TaskStarted(at=AT, task=f"t{n}", attempt=1, deadline_at=AT + n) for n in range(count)]
    run = fold(None, [submitted(), *taken])
    assert run is not None
    assert len(run.due) == count
    assert sum(encoded) < 1_000 * count
