"""When does time alone change a task? Kept from event to event, without a look at the tasks themselves.

So a copy of a run that has left its tasks out, as lists have it, still knows when it is due.
"""

from pyoco_server.lifecycle import events as e

Ended = e.TaskReadied | e.TaskSucceeded | e.TaskCancelled
TimedEvent = e.TaskProgressed | e.TaskStarted | e.TaskFailed | e.TaskWaiting | e.TaskResumed | Ended


def due_after(due: dict[str, float], event: TimedEvent) -> dict[str, object]:
    """What changes in a run by it: `due`, or nothing."""
    if isinstance(event, e.TaskProgressed):
        return {}
    instant = due_at_of(event)
    if instant is None:
        if event.task not in due:
            return {}
        return {"due": {task: at for task, at in due.items() if task != event.task}}
    return {"due": due | {event.task: instant}}


def due_at_of(event: TimedEvent) -> float | None:
    """The deadline of an attempt or a wait, the end of a backoff; None where there is nothing to wait for."""
    match event:
        case e.TaskStarted() | e.TaskWaiting() | e.TaskResumed():
            return event.deadline_at
        case e.TaskFailed():
            return event.retry_at
        case _:
            return None
