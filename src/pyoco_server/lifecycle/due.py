"""When does time alone change a task? Kept from event to event, without a look at the tasks themselves.

So a copy of a run that has left its tasks out, as lists have it, still knows when it is due.
"""

from collections.abc import Callable
from operator import attrgetter

from pyoco_server.lifecycle import events as e

# The most frequent first: `isinstance` asks for them in this order.
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

# Looked up by type, for there are many events and few of them have an instant.
_INSTANTS: dict[type[e.Event], Callable[[e.Event], float | None]] = {
    e.TaskStarted: attrgetter("deadline_at"),
    e.TaskWaiting: attrgetter("deadline_at"),
    e.TaskResumed: attrgetter("deadline_at"),
    e.TaskFailed: attrgetter("retry_at"),
}


def due_at_of(event: OneTaskEvent) -> float | None:
    """The deadline of an attempt or a wait, the end of a backoff; None where there is nothing to wait for."""
    instant = _INSTANTS.get(type(event))
    return None if instant is None else instant(event)


def due_after(due: dict[str, float], event: OneTaskEvent, instant: float | None) -> dict[str, float]:
    """Whatever happens to a task takes the place of what was due in it; but for its progress."""
    if instant is not None:
        return due | {event.task: instant}
    if event.task not in due or isinstance(event, e.TaskProgressed):
        return due
    return {task: at for task, at in due.items() if task != event.task}
