"""What a listener may do: hold successors back, stop the run, raise."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from pyoco.core.context import Context
from pyoco.core.models import RunContext, RunStatus

from pyoco_server.engine import Engine, OutcomeStatus, StopRun
from tests.engine.building import (
    DEADLINE_SEC,
    Acknowledge,
    Background,
    Diary,
    await_signal,
    flow_of,
    make_task,
)


class Withholding(Diary):
    """Keeps the acknowledgements for the test to give."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[str, Acknowledge] = {}
        self.succeeded = {name: threading.Event() for name in "abc"}

    def task_succeeded(
        self,
        name: str,
        attempt: int,
        output: Any,
        started_at: float,
        ended_at: float,
        acknowledged: Acknowledge,
    ) -> None:
        self.note("succeeded", name)
        self.kept[name] = acknowledged
        self.succeeded[name].set()


def test_a_delayed_acknowledgement_holds_only_the_successors_back() -> None:
    listener = Withholding()
    a = make_task("a", lambda: 1)
    b = make_task("b", lambda: 2)
    c = make_task("c", lambda: 3, [a])
    with Background(Engine(listener=listener), flow_of(a, b, c)) as run:
        await_signal(listener.succeeded["a"])
        await_signal(listener.succeeded["b"])
        assert ("c",) not in [entry[:1] for entry in listener.of("started")]
        listener.kept["b"]()
        assert not listener.succeeded["c"].is_set()
        listener.kept["a"]()
        listener.kept["a"]()
        assert run.outcome().results == {"a": 1, "b": 2, "c": 3}
    assert [entry[:2] for entry in listener.entries][-2:] == [("started", "c"), ("succeeded", "c")]
    listener.kept["c"]()  # nobody listens any more, and that is fine


def test_nothing_of_a_run_waits_for_an_acknowledgement_on_which_no_task_depends() -> None:
    assert (
        Engine(listener=Withholding()).run(flow_of(make_task("a", lambda: 1))).status
        is OutcomeStatus.COMPLETED
    )


@pytest.mark.parametrize("where", ["planned", "task_started", "task_succeeded", "task_failed"])
def test_stop_run_abandons_the_run_wherever_it_is_raised(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = _raise_in(where, StopRun("fenced out"), monkeypatch)
    context = RunContext()
    outcome = Engine(listener=heard).run(_good_and_bad(), run_context=context)
    assert (outcome.status, outcome.error) == (OutcomeStatus.ABANDONED, "fenced out")
    assert heard.of("raised") == [(where,)]
    assert heard.entries[-1] == ("raised", where)
    assert context.status is RunStatus.CANCELLED


@pytest.mark.parametrize("where", ["planned", "task_started", "task_succeeded", "task_failed"])
def test_any_other_exception_of_a_listener_comes_out_of_run(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = _raise_in(where, OSError("disk full"), monkeypatch)
    with pytest.raises(OSError, match="disk full"):
        Engine(listener=heard).run(_good_and_bad())
    assert heard.entries[-1] == ("raised", where)


def test_a_run_that_stops_for_its_listener_asks_running_tasks_to_return() -> None:
    both_run = threading.Barrier(2)
    returned = threading.Event()

    def patient(ctx: Context) -> None:
        both_run.wait(DEADLINE_SEC)
        while not ctx.is_cancelled:
            pass
        returned.set()

    class Stopping(Diary):
        def task_succeeded(self, *args: object) -> None:
            raise StopRun

    tasks = [make_task("a", patient), make_task("b", lambda: both_run.wait(DEADLINE_SEC))]
    assert Engine(listener=Stopping()).run(flow_of(*tasks)).status is OutcomeStatus.ABANDONED
    assert returned.is_set()


def test_stop_run_while_a_cancel_winds_down_still_abandons() -> None:
    class Stopping(Diary):
        def task_cancelled(self, name: str) -> None:
            raise StopRun

    engine, context = Engine(listener=Stopping()), RunContext()
    engine.cancel(context.run_id)
    assert engine.run(_good_and_bad(), run_context=context).status is OutcomeStatus.ABANDONED


def _good_and_bad() -> Any:
    good = make_task("good", lambda: 1)
    bad = make_task("zbad", lambda: 1 / 0, [good])
    return flow_of(good, bad)


def _raise_in(where: str, exc: Exception, monkeypatch: pytest.MonkeyPatch) -> Diary:
    diary = Diary()
    hear: Callable[..., None] = getattr(diary, where)

    def raising(*args: Any) -> None:
        hear(*args)
        diary.note("raised", where)
        raise exc

    monkeypatch.setattr(diary, where, raising)
    return diary
