"""Points in a run, named by an event: for `cancel_when` and `lose_worker_before`. Predicates, no effects."""

from __future__ import annotations

from collections.abc import Callable

from pyoco_server.lifecycle import events as e

EventTest = Callable[[e.Event], bool]


def started(task: str, attempt: int = 1) -> EventTest:
    return lambda event: isinstance(event, e.TaskStarted) and (event.task, event.attempt) == (task, attempt)


def succeeded(task: str) -> EventTest:
    return lambda event: isinstance(event, e.TaskSucceeded) and event.task == task


def failed(task: str) -> EventTest:
    """Also an attempt that is followed by another one."""
    return lambda event: isinstance(event, e.TaskFailed) and event.task == task


def waiting(task: str) -> EventTest:
    """It has begun to wait: for an answer, or for the end of a sleep."""
    return lambda event: isinstance(event, e.TaskWaiting) and event.task == task
