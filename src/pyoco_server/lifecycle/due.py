"""The instants at which time alone changes a task. They follow from events, not from the task records.

So a copy of a run without its tasks, as in lists, still has them.
"""

from collections.abc import Callable
from operator import attrgetter

from pyoco_server.lifecycle import events as e

# The most frequent first: `isinstance` checks them in this order.
OneTaskEvent = (
    e.TaskSucceeded
    | e.TaskStarted
    | e.TaskFailed
    | e.TaskCancelled
    | e.TaskReadied
    | e.TaskProgressed
    | e.TaskWaiting
    | e.TaskResumed
)

# Looked up by type: there are many events, and few of them have an instant.
_INSTANTS: dict[type[e.Event], Callable[[e.Event], float | None]] = {
    e.TaskStarted: attrgetter("deadline_at"),
    e.TaskWaiting: attrgetter("deadline_at"),
    e.TaskResumed: attrgetter("deadline_at"),
    e.TaskFailed: attrgetter("retry_at"),
}


def due_at_of(event: OneTaskEvent) -> float | None:
    """The deadline of an attempt or a wait, or the end of a backoff; None if there is neither."""
    instant = _INSTANTS.get(type(event))
    return None if instant is None else instant(event)


def due_after(due: dict[str, float], event: OneTaskEvent, instant: float | None) -> dict[str, float]:
    """An event of a task replaces what was due for it. Progress does not."""
    if instant is not None:
        return due | {event.task: instant}
    if event.task not in due or isinstance(event, e.TaskProgressed):
        return due
    return {task: at for task, at in due.items() if task != event.task}
