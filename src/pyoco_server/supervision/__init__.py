"""The one model for everything that runs in the background of a gateway or a worker.

`Loop` is a named body that is executed again and again, at an interval or when it is woken. An error of the
body is logged with the loop's name and counted, and the loop continues after a backoff. Only `stop` ends it.
`noticed` is for a task that is executed once, `contain` for a step that a timer repeats: both log and count.
`Service` is something with a start, a stop and, where it matters, a reaction to a reconnect. `Services`
starts a list of them in order, each with retries, and stops them in reverse order.
"""

from pyoco_server.supervision.backoff import Backoff
from pyoco_server.supervision.loop import Loop, contain, count_failure, failures_by_loop, noticed
from pyoco_server.supervision.start_sequence import Service, Services

__all__ = [
    "Backoff",
    "Loop",
    "Service",
    "Services",
    "contain",
    "count_failure",
    "failures_by_loop",
    "noticed",
]
