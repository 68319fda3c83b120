"""The one model for everything that runs in the background of a gateway or a worker.

`Loop` is a named body that is executed again and again, at an interval or when it is woken. An error of the
body is logged with the loop's name and counted, and the loop continues after a backoff. Only `stop` ends it.
`start_task` starts a task that is executed once; `contain` is for a step that a timer repeats. Both log and
count errors. `capture_error` only holds the error of a step, for code that decides about it.
`Service` is something with a start, a stop and, where it matters, a reaction to a reconnect. `Services`
starts a list of them in order, each with retries, and stops them in reverse order.
"""

from pyoco_server.supervision.backoff import Backoff
from pyoco_server.supervision.loop import Loop, start_task, wait_for_event
from pyoco_server.supervision.start_sequence import Service, Services
from pyoco_server.supervision.steps import capture_error, contain, count_failure, failures_by_loop

__all__ = [
    "Backoff",
    "Loop",
    "Service",
    "Services",
    "capture_error",
    "contain",
    "count_failure",
    "failures_by_loop",
    "start_task",
    "wait_for_event",
]
