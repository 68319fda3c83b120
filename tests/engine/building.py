"""Flows, listeners and threads for the engine's tests. Waits on signals with a deadline, never on time."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from pyoco.core.context import Context
from pyoco.core.models import Flow, RunContext, Task

from pyoco_server.engine import Engine, Listener, Machine, RunOutcome, WaitAnswer, WaitPrompt

DEADLINE_SEC = 20.0
Acknowledge = Callable[[], None]


def make_task(name: str, func: Callable[..., Any], needs: Iterable[Task] = (), **settings: Any) -> Task:
    task = Task(func=func, name=name, **settings)
    for other in needs:
        task.dependencies.add(other)
        other.dependents.add(task)
    return task


def flow_of(*tasks: Task) -> Flow:
    return Flow("test", tasks=set(tasks))


def raising(exc: BaseException) -> Callable[[], Any]:
    def fail() -> Any:
        raise exc

    return fail


def await_signal(event: threading.Event) -> None:
    assert event.wait(DEADLINE_SEC), "the awaited signal did not come"


def machine_timed_from(begun: threading.Event) -> Machine:
    """Its stopwatch stands still until `begun` is set.

    A busy machine may otherwise begin a task only when its short timeout has passed, or not at all.
    """
    offset: list[float] = []

    def stopwatch() -> float:
        if not begun.is_set():
            return 0.0
        now = time.monotonic()
        offset.append(now)
        return now - offset[0]

    return Machine(stopwatch=stopwatch)


class Obedient:
    """A task that says when it runs and returns, or raises, once it sees the cancel."""

    def __init__(self, exc: Exception | None = None) -> None:
        self.running = threading.Event()
        self._exc = exc

    def __call__(self, ctx: Context) -> str:
        self.running.set()
        give_up_at = time.monotonic() + DEADLINE_SEC
        while not ctx.is_cancelled and time.monotonic() < give_up_at:
            time.sleep(0.001)
        if self._exc is not None:
            raise self._exc
        return "returned"


class Diary(Listener):
    """Writes down every callback as a tuple that begins with its kind."""

    def __init__(self) -> None:
        self.entries: list[tuple[Any, ...]] = []
        self.threads: set[int] = set()

    def note(self, *entry: Any) -> None:
        self.entries.append(entry)
        self.threads.add(threading.get_ident())

    def of(self, kind: str) -> list[tuple[Any, ...]]:
        return [entry[1:] for entry in self.entries if entry[0] == kind]

    def planned(self, names: Sequence[str], last: Sequence[str]) -> None:
        self.note("planned", *names)

    def task_started(self, name: str, attempt: int, inputs: Mapping[str, Any], started_at: float) -> None:
        self.note("started", name, attempt, dict(inputs))

    def task_succeeded(
        self,
        name: str,
        attempt: int,
        output: Any,
        started_at: float,
        ended_at: float,
        acknowledged: Acknowledge,
    ) -> None:
        self.note("succeeded", name, attempt, output)
        assert started_at <= ended_at
        acknowledged()

    def task_failed(
        self,
        name: str,
        attempt: int,
        error: str,
        traceback: str,
        started_at: float,
        ended_at: float,
        will_retry: bool,
    ) -> None:
        self.note("failed", name, attempt, error, will_retry)
        assert started_at <= ended_at

    def task_cancelled(self, name: str) -> None:
        self.note("cancelled", name)

    def task_waiting(self, name: str, attempt: int, asked: WaitPrompt) -> None:
        self.note("waiting", name, attempt, asked.key, dict(asked.prompt))


class Background:
    """A run in a thread of its own. Left open at the end of the block, it is abandoned."""

    def __init__(self, engine: Engine, flow: Flow, **arguments: Any) -> None:
        self.engine = engine
        self.context = RunContext()
        self._outcomes: list[RunOutcome | BaseException] = []
        self._thread = threading.Thread(target=self._run, args=(flow, arguments), daemon=True)

    def __enter__(self) -> "Background":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(AssertionError):
            if self._thread.is_alive():
                self.engine.abandon(self.context.run_id)
                self.outcome()

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def cancel(self) -> None:
        self.engine.cancel(self.context.run_id)

    def abandon(self) -> None:
        self.engine.abandon(self.context.run_id)

    def answer(self, name: str, answer: WaitAnswer) -> None:
        self.engine.answer(self.context.run_id, name, answer)

    def outcome(self) -> RunOutcome:
        self._thread.join(DEADLINE_SEC)
        assert self._outcomes, "the run did not end"
        outcome = self._outcomes[0]
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def _run(self, flow: Flow, arguments: dict[str, Any]) -> None:
        try:
            self._outcomes.append(self.engine.run(flow, run_context=self.context, **arguments))
        except BaseException as exc:
            self._outcomes.append(exc)
