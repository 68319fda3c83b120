"""What each event adds to a stored snapshot. Sums that only grow and follow from the log alone.

They decide what a snapshot leaves out, so an event counts whether or not it had an effect.
"""

import msgspec
from msgspec.structs import replace

from pyoco_server.lifecycle import events as e
from pyoco_server.lifecycle.graph import named_only
from pyoco_server.lifecycle.run import ERROR_SLIM_CHARS, MESSAGE_CHARS_MAX, Run
from pyoco_server.lifecycle.task_board import TaskEvent

# What one task costs in a snapshot besides its name and its error, with its instants and without them.
TASK_SLIM_BYTES = 300
TASK_BARE_BYTES = 60
# What a run costs in a snapshot besides what its submission and other events said.
RUN_SLIM_BYTES = 2048
# An instant at which something is due, beside the name of its task.
DUE_BYTES = 24
# What a client-driven task may say of its progress: replaced each time, and so set aside once.
PROGRESS_BYTES = 80
MESSAGE_BYTES = 6 * MESSAGE_CHARS_MAX + 16


def submitted(run: Run, event: e.RunSubmitted) -> Run:
    """A graph is left out as soon as anything is; its tasks are there from the beginning."""
    whole = json_bytes(replace(event, workflow_yaml=None)) + RUN_SLIM_BYTES
    if event.graph is None:
        return _heavier(run, full=whole, slim=whole, bare=whole)
    fixed = 2 * json_bytes(list(run.tasks)) + 2 * json_bytes(run.last_tasks)
    lean = json_bytes(replace(event, workflow_yaml=None, graph=named_only(event.graph))) + RUN_SLIM_BYTES
    slim = fixed + len(run.tasks) * TASK_SLIM_BYTES
    bare = fixed + len(run.tasks) * TASK_BARE_BYTES
    return _heavier(run, full=whole + slim, slim=lean + slim, bare=lean + bare)


def weighed(run: Run, event: TaskEvent, due_at: float | None) -> Run:
    """`due_at`: the instant that it brings, which stands in the snapshot too."""
    size = json_bytes(event)
    tasks, error = 1, 0
    # A name stands twice, in `tasks` and beside them; what is waited for is never left out with the rest.
    match event:
        case e.TaskSucceeded():
            fixed = 2 * json_bytes(event.task)
        case e.TasksPlanned():
            tasks, fixed = len(event.tasks), 2 * size
        case e.TaskWaiting():
            fixed = 3 * size
        case e.TaskFailed():
            fixed, error = 2 * json_bytes(event.task), json_bytes(event.error[:ERROR_SLIM_CHARS])
            error += json_bytes(event.code) if event.code else 0
        case e.TaskProgressed():
            return run
        case e.TaskReadied():
            fixed = 3 * json_bytes(event.task)
        case e.TaskStarted() if event.worker_id is not None:
            fixed, error = 2 * json_bytes(event.task), PROGRESS_BYTES + json_bytes(event.worker_id)
            size += MESSAGE_BYTES
        case _:
            fixed = 2 * json_bytes(event.task)
    if due_at is not None and not isinstance(event, e.TasksPlanned):
        fixed += json_bytes(event.task) + DUE_BYTES
    slim = fixed + error + tasks * TASK_SLIM_BYTES
    return _heavier(run, full=size + slim, slim=slim, bare=fixed + tasks * TASK_BARE_BYTES)


def noted(run: Run, event: e.Event) -> Run:
    """What it says of the run stays in every snapshot, some of it twice: the tasks have to give way."""
    size = 2 * json_bytes(event)
    return _heavier(run, full=size, slim=size, bare=size)


def json_bytes(value: object) -> int:
    """As it will stand in the snapshot: what has to be escaped is longer there than in UTF-8."""
    return len(msgspec.json.encode(value))


def _heavier(run: Run, *, full: int, slim: int, bare: int) -> Run:
    return replace(
        run,
        bytes_full=run.bytes_full + full,
        bytes_slim=run.bytes_slim + slim,
        bytes_bare=run.bytes_bare + bare,
    )
