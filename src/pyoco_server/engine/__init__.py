"""Execute a pyoco `Flow`: the only place that runs user code. Knows no NATS, no HTTP, no KV, no event loop.

How it is built, from the door inwards:

    engine       which runs are live
    run          one run, from its first callback to its outcome
    graph, program        two walks through a flow: as wide as its edges allow, or step by step through loops
    plan, ready; places, looped    what the walks know of the flow
    supervisor   the scheduler: fills threads, waits, winds down, within its limits
    waits        tasks without code: open until they are answered
    under_way    what becomes of an attempt: success, retry (backoff), failure, expiry (timers)
    launch, wiring, attempt, crew  arguments, user code, threads
    control, reporter, listener    what others may do to a run, and what it tells them
    whereabouts  which attempt a thread speaks for
"""

from pyoco_server.engine.answer import WaitAnswer
from pyoco_server.engine.cancelled import Cancelled
from pyoco_server.engine.control import Event
from pyoco_server.engine.engine import PARALLELISM_DEFAULT, Engine
from pyoco_server.engine.listener import Listener, NullListener, StopRun, WaitPrompt
from pyoco_server.engine.outcome import OutcomeStatus, RunOutcome
from pyoco_server.engine.tasks.failure import ERROR_BYTES_MAX, TRACEBACK_BYTES_MAX

__all__ = [
    "ERROR_BYTES_MAX",
    "PARALLELISM_DEFAULT",
    "TRACEBACK_BYTES_MAX",
    "Cancelled",
    "Engine",
    "Event",
    "Listener",
    "NullListener",
    "OutcomeStatus",
    "RunOutcome",
    "StopRun",
    "WaitAnswer",
    "WaitPrompt",
]
