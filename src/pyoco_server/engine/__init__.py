"""Execute a pyoco `Flow`: the only package that runs user code. It uses no NATS, no HTTP, no event loop.

The modules, from the public interface inwards:

    engine       the live runs, each from its first callback to its outcome
    graph, program        two walks through a flow: in parallel along its edges, or step by step through loops
    plan, program_index   the flow as the walks use it
    scheduler    fills threads, waits, winds down, within its limits; holds the open waits
    in_flight    how an attempt starts and ends: success, retry (backoff), failure, expiry (timers)
    grouping     how many ready tasks one thread is given
    wiring, attempt, task_group, thread_pool    arguments, user code, threads
    control, reporter, listener    requests to a run, and what it reports
    current_attempt    the attempt that a thread belongs to
"""

from pyoco_server.engine.control import Event
from pyoco_server.engine.engine import PARALLELISM_DEFAULT, Engine
from pyoco_server.engine.limits import Machine
from pyoco_server.engine.listener import Listener, StopRun, WaitAnswer, WaitPrompt
from pyoco_server.engine.outcome import OutcomeStatus, RunOutcome
from pyoco_server.engine.tasks.failure import ERROR_BYTES_MAX, TRACEBACK_BYTES_MAX, Cancelled

__all__ = [
    "ERROR_BYTES_MAX",
    "PARALLELISM_DEFAULT",
    "TRACEBACK_BYTES_MAX",
    "Cancelled",
    "Engine",
    "Event",
    "Listener",
    "Machine",
    "OutcomeStatus",
    "RunOutcome",
    "StopRun",
    "WaitAnswer",
    "WaitPrompt",
]
