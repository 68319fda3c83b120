"""One attempt at a task: call the user's function in the current thread; other threads can interrupt it.

Owns the boundary to user code. Does not decide what a failure means.
"""

import asyncio
import inspect
import math
import threading
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pyoco_server import clock
from pyoco_server.engine.tasks.current_attempt import CURRENT, CurrentAttempt
from pyoco_server.engine.tasks.failure import Failure, describe
from pyoco_server.engine.walk.plan import TaskSpec

_interrupting = threading.Lock()  # one for all attempts: most of them never need it


@dataclass(slots=True, eq=False)
class TaskAttempt:
    """Belongs to the scheduler's thread, except while a pooled thread calls `perform` (see `task_group`)."""

    spec: TaskSpec
    name: str  # the record name: the task's, or that of one iteration
    retries_left: int = 0
    deadline: float = math.inf  # monotonic; shared by all attempts at the task
    number: int = 0  # counts from 1; 0 before its start
    run_id: str = ""
    started_at: float = 0.0
    arguments: dict[str, object] = field(default_factory=dict)
    is_abandoned: bool = False
    is_saved: bool = False  # its output is in the context
    _is_interrupted: bool = False
    _awaiting: "tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None" = None

    def perform(self) -> "AttemptEnded":
        before = CURRENT.set(CurrentAttempt(self.name, self.number, self.run_id))
        try:
            output = self.spec.func(**self.arguments)
            if inspect.iscoroutine(output):
                output = asyncio.run(self._await(output))
        except BaseException as exc:  # user code: it may raise anything; sys.exit() must not end this thread
            return AttemptEnded(self, clock.now(), None, describe(exc))
        finally:
            CURRENT.reset(before)
        return AttemptEnded(self, clock.now(), output, None)

    def interrupt(self) -> None:
        """Cancel the asyncio task, if there is one now or later. Plain functions read `ctx.is_cancelled`."""
        with _interrupting:
            self._is_interrupted = True
            awaiting = self._awaiting
        if awaiting is not None:
            loop, task = awaiting
            with suppress(RuntimeError):  # the loop has just closed: the attempt is over
                loop.call_soon_threadsafe(task.cancel)

    def abandon(self) -> None:
        """Stop waiting for this attempt: its result will be ignored."""
        self.is_abandoned = True
        self.interrupt()

    def next_attempt(self) -> "TaskAttempt":
        return TaskAttempt(self.spec, self.name, self.retries_left - 1, self.deadline, self.number)

    async def _await(self, coroutine: Coroutine[object, object, object]) -> object:
        task = asyncio.current_task()
        assert task is not None
        with _interrupting:
            self._awaiting = (asyncio.get_running_loop(), task)
            if self._is_interrupted:
                task.cancel()
        return await coroutine


class AttemptEnded(NamedTuple):
    """The user's function has returned or raised."""

    attempt: TaskAttempt
    ended_at: float
    output: object
    failure: Failure | None
