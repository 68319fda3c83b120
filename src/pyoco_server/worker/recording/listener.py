"""From the engine's callbacks to lifecycle commands, in the process that executes the run.

Owns which success must be committed first: the successors of a task start when its result is in the log. No
task depends on a last task, so its result is acknowledged at once and joins a later commit.

A command is reported without the values of user code. They are sent beside it as JSON, and the process that
commits the command puts them into it without decoding them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import IntEnum, auto
from typing import NamedTuple

import msgspec

from pyoco_server import clock
from pyoco_server.engine import Listener, WaitPrompt
from pyoco_server.lifecycle.commands import (
    FailTask,
    PlanTasks,
    PutTaskWaiting,
    SkipTask,
    StartTask,
    SucceedTask,
)
from pyoco_server.lifecycle.graph import OnTimeout
from pyoco_server.worker.recording.values import inputs_kept, result_of

# The plan of a large flow is too long for one message.
PLAN_NAMES_MAX = 1_000
LAST_NAMES_MAX = 1_000
# Edges are drawn, and used when a run is executed again from a task on. A flow with more than this is not
# drawn, and the order of the log is used instead (`lifecycle.task_order`).
DRAWN_CHARS_MAX = 100_000

_to_json = msgspec.json.Encoder().encode
NO_INPUTS = b"{}"

Acknowledge = Callable[[], None]
TaskCommand = PlanTasks | StartTask | SucceedTask | FailTask | SkipTask | PutTaskWaiting


class Numbering(NamedTuple):
    """The numbers in commands of one claim: its fence, and the attempts of each task before this claim."""

    fence: int
    attempts: Mapping[str, int] = {}

    def attempt_no(self, task: str, attempt: int) -> int:
        """The engine counts from 1 in each claim, the log counts on. 0: the task never started."""
        return self.attempts.get(task, 0) + attempt if attempt else 0


class Urgency(IntEnum):
    NOW = auto()  # other tasks wait until the command is in the log
    SOON = auto()  # no task waits for it, but it should not be lost with the process
    WITH_NEXT = auto()  # another report or the end of the run follows


# The bytes: values of user code (output, inputs, prompt), as JSON. Acknowledge is called when the command
# is in the log; None if nothing waits for that.
Report = Callable[[TaskCommand, bytes | None, Acknowledge | None, Urgency], None]


class Edges(NamedTuple):
    """`any_of`: the tasks for which one of those they need is enough."""

    needs: Mapping[str, Sequence[str]] = {}
    any_of: Collection[str] = ()


class CommandListener(Listener):
    """`report` is called in the engine's thread; `end_output` before the end of a task is reported."""

    def __init__(self, report: Report, end_output: Callable[[str], None]) -> None:
        self._report = report
        self._end_output = end_output
        self._numbering = Numbering(fence=0)
        self._result_bytes_max = 0
        self._edges = Edges()
        self._last: frozenset[str] = frozenset()
        self._unfinished: set[str] = set()

    def begin(self, numbering: Numbering, result_bytes_max: int) -> None:
        """Before each run."""
        self._numbering, self._result_bytes_max = numbering, result_bytes_max
        self._edges = Edges()

    def wired(self, needs: Mapping[str, Sequence[str]], any_of: Sequence[str]) -> None:
        self._edges = Edges(needs, any_of)

    def planned(self, names: Sequence[str], last: Sequence[str]) -> None:
        self._unfinished = set(names)
        self._last = frozenset(last)  # empty for a flow with loops: any task may be executed again
        for command in plan(self._numbering.fence, names, last, self._edges, clock.now()):
            self._report(command, None, None, Urgency.WITH_NEXT)

    def task_started(self, name: str, attempt: int, inputs: Mapping[str, object], started_at: float) -> None:
        started = StartTask(
            fence=self._numbering.fence,
            task=name,
            attempt=self._numbering.attempt_no(name, attempt),
            started_at=started_at,
        )
        values = _to_json(inputs_kept(inputs)[0]) if inputs else NO_INPUTS
        self._report(started, values, None, Urgency.WITH_NEXT)

    def task_succeeded(
        self,
        name: str,
        attempt: int,
        output: object,
        started_at: float,
        ended_at: float,
        acknowledged: Acknowledge,
    ) -> None:
        self._end_output(name)
        self._unfinished.discard(name)
        result = result_of(output, self._result_bytes_max)
        succeeded = SucceedTask(
            fence=self._numbering.fence,
            task=name,
            attempt=self._numbering.attempt_no(name, attempt),
            started_at=started_at,
            ended_at=ended_at,
            kept=result.kept,
            types=result.types,
        )
        if name not in self._last:
            self._report(succeeded, result.json, acknowledged, Urgency.NOW)
            return
        acknowledged()
        # The end of the run follows the last of them at once.
        urgency = Urgency.SOON if self._unfinished else Urgency.WITH_NEXT
        self._report(succeeded, result.json, None, urgency)

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
        self._end_output(name)
        failed = FailTask(
            fence=self._numbering.fence,
            task=name,
            attempt=self._numbering.attempt_no(name, attempt),
            started_at=started_at,
            ended_at=ended_at,
            error=error,
            traceback=traceback or None,
            will_retry=will_retry,
        )
        self._report(failed, None, None, Urgency.WITH_NEXT)

    def task_cancelled(self, name: str) -> None:
        skipped = SkipTask(fence=self._numbering.fence, task=name, skipped_at=clock.now())
        self._report(skipped, None, None, Urgency.WITH_NEXT)

    def task_waiting(self, name: str, attempt: int, asked: WaitPrompt) -> None:
        now = clock.now()
        waiting = PutTaskWaiting(
            fence=self._numbering.fence,
            task=name,
            attempt=self._numbering.attempt_no(name, attempt),
            wait_key=asked.key,
            deadline_at=None if asked.timeout_sec is None else now + asked.timeout_sec,
            on_timeout=OnTimeout(asked.on_timeout),
            waiting_since=now,
        )
        prompt = _to_json(inputs_kept(asked.prompt)[0]) if asked.prompt else None
        self._report(waiting, prompt, None, Urgency.WITH_NEXT)


def plan(
    fence: int, names: Sequence[str], last: Sequence[str], edges: Edges, at: float
) -> Iterator[PlanTasks]:
    """The plan of a run: its tasks in portions, its last tasks, and its edges."""
    if sum(len(name) for wanted in edges.needs.values() for name in wanted) > DRAWN_CHARS_MAX:
        edges = Edges()
    # Instants cannot tell which task was last: the clock may have been set back, or was still, meanwhile. A
    # single task needs no name. Very many last tasks make no useful result.
    last_tasks = list(last) if len(names) > 1 and len(last) <= LAST_NAMES_MAX else None
    for start in range(0, max(len(names), 1), PLAN_NAMES_MAX):
        tasks = list(names[start : start + PLAN_NAMES_MAX])
        yield PlanTasks(
            fence=fence,
            tasks=tasks,
            last=last_tasks,
            needs={name: list(edges.needs[name]) for name in tasks if name in edges.needs} or None,
            any_of=[name for name in tasks if name in edges.any_of] or None,
            planned_at=at,
        )
        last_tasks = None
