"""What must hold of a client-driven run at every commit, said as plainly as can be: no worklist, no tally.

It is the specification of joins and ends a second time, in the slowest way there is.
"""

from pyoco_server.lifecycle.graph import GraphTask, Join
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import Driver, RunStatus, TaskStatus

_ENDED_BADLY = (TaskStatus.FAILED, TaskStatus.CANCELLED)


def graph_violations(run: Run) -> list[str]:
    """Only for histories that were decided."""
    if run.driver is not Driver.CLIENT or run.graph is None or run.gone:
        return []
    if run.cancel is not None:
        return [] if run.is_terminal and not run.due else ["a cancel of a client-driven run was not the end"]
    found = [*_due_violations(run), *(one for task in run.graph.nodes for one in _task_violations(run, task))]
    if run.is_terminal and run.ended is not how_it_ends(run):
        found.append(f"{run.ended} where {how_it_ends(run)} was to be expected")
    if run.started_at is not None and not run.is_terminal and how_it_ends(run) is not None:
        found.append("every task has ended, but not the run")
    return found


def passes(run: Run, task: GraphTask) -> bool | None:
    before = [run.tasks[name].state for name in task.after]
    if not before:
        return True
    over = all(state.is_finished for state in before)
    match task.join:
        case Join.ALL_SUCCESS:
            lost = any(state in _ENDED_BADLY for state in before)
            return False if lost else True if over else None
        case Join.ANY_SUCCESS:
            won = any(state is TaskStatus.SUCCEEDED for state in before)
            return True if won else False if over else None
        case Join.ALL_DONE:
            return True if over else None


def how_it_ends(run: Run) -> RunStatus | None:
    assert run.graph is not None
    states = {task.id: run.tasks[task.id].state for task in run.graph.nodes}
    if not all(state.is_finished for state in states.values()):
        return None
    last = [name for name in states if not _later(run, name)]
    failed = [name for name, state in states.items() if state is TaskStatus.FAILED]
    good = any(states[name] is TaskStatus.SUCCEEDED for name in last)
    good = good and all(_is_forgiven(run, name) for name in failed)
    return RunStatus.COMPLETED if good else RunStatus.FAILED


def _task_violations(run: Run, task: GraphTask) -> list[str]:
    record = run.tasks[task.id]
    if run.started_at is None:
        return [] if record.state in (TaskStatus.PENDING, TaskStatus.SUCCEEDED) else ["it went on unstarted"]
    gate = passes(run, task)
    match record.state:
        case TaskStatus.PENDING if record.attempt:
            return [] if task.id in run.due or run.is_terminal else ["to be tried again, but never due"]
        case TaskStatus.PENDING:
            return [] if gate is None else [f"PENDING although its join says {gate}"]
        case TaskStatus.CANCELLED:
            return [] if gate is False and record.skipped else ["CANCELLED although it could have run"]
        case _:
            return [] if gate else [f"{record.state} although its join says {gate}"]


def _due_violations(run: Run) -> list[str]:
    found = []
    for name, record in run.tasks.items():
        timed = record.wait is not None and record.wait.deadline_at is not None
        if timed and record.wait is not None and run.due.get(name) != record.wait.deadline_at:
            found.append("a wait with a deadline is not due then")
        if record.state.is_finished and name in run.due:
            found.append("due although it has ended")
    return found


def _is_forgiven(run: Run, name: str) -> bool:
    return any(_forgives(run, later) for later in _later(run, name))


def _forgives(run: Run, task: GraphTask) -> bool:
    state = run.tasks[task.id].state
    if state is TaskStatus.CANCELLED:
        return _is_forgiven(run, task.id)
    return task.join is not Join.ALL_SUCCESS and state in (TaskStatus.SUCCEEDED, TaskStatus.FAILED)


def _later(run: Run, name: str) -> list[GraphTask]:
    assert run.graph is not None
    return [task for task in run.graph.nodes if name in task.after]
