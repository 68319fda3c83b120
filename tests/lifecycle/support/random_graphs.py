"""Random graphs, and histories of clients that drive runs of them: mostly sensible, now and then not."""

from typing import NamedTuple

from hypothesis import strategies as st

from pyoco_server.lifecycle import commands as c
from pyoco_server.lifecycle.decide import Refused, decide
from pyoco_server.lifecycle.graph import (
    Graph,
    GraphTask,
    Join,
    OnTimeout,
    RetryPolicy,
    TaskKind,
    graph_problems,
)
from pyoco_server.lifecycle.reduce import fold
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import TaskStatus
from tests.lifecycle.support.alphabet import AT
from tests.lifecycle.support.graphs import answer, asks, client_run, lost, take, won
from tests.lifecycle.support.random_runs import Commit

_JOINS = (Join.ALL_SUCCESS, Join.ALL_SUCCESS, Join.ANY_SUCCESS, Join.ALL_DONE)
_RETRIES = (RetryPolicy(), RetryPolicy(max_attempts=2), *(RetryPolicy(max_attempts=3, backoff_sec=7.5),) * 2)
_SPANS = (None, None, 30.0)
_SIZES = (0, 1, 50, 5000)


class Deed(NamedTuple):
    """What somebody wants next: relative to the run as it stands, so that most of it is accepted."""

    pick: int
    flag: bool
    size: int
    later_sec: float
    stray: bool


def _task(number: int, place: int) -> GraphTask:
    """One number for all members. It comes after some of those before it in number, not in their order."""
    number, join = divmod(number, len(_JOINS))
    number, retry = divmod(number, len(_RETRIES))
    number, span = divmod(number, len(_SPANS))
    number, kind = divmod(number, 3)
    number, fate = divmod(number, 2)
    after = tuple(f"t{n}" for n in range(place) if number >> n & 1)
    return GraphTask(
        id=f"t{place}",
        type=TaskKind.WAIT if kind == 0 else TaskKind.TASK,
        after=after,
        join=_JOINS[join],
        retry=_RETRIES[retry],
        timeout_sec=_SPANS[span],
        wait_timeout_sec=_SPANS[(span + 1) % len(_SPANS)],
        on_timeout=OnTimeout.SUCCEED if fate else OnTimeout.FAIL,
        prompt={"ask": "?" * number.bit_length()} if kind == 0 else None,
    )


def _graph(numbers: list[int]) -> tuple[GraphTask, ...]:
    tasks = tuple(_task(number, place) for place, number in enumerate(numbers))
    tasks = tasks[::-1] if sum(numbers) % 2 else tasks
    assert graph_problems(Graph(id="g", version=1, nodes=tasks)) == []
    return tasks


def _deed(number: int) -> Deed:
    number, flag = divmod(number, 2)
    number, pick = divmod(number, 60)
    number, stray = divmod(number, 6)
    later, size = divmod(number, len(_SIZES))
    return Deed(pick, bool(flag), _SIZES[size], (0.0, 1.0, 8.0, 31.0)[later], stray == 0)


graphs = st.lists(st.integers(0, 2**17), min_size=1, max_size=2).map(_graph) | st.lists(
    st.integers(0, 2**17), min_size=3, max_size=7
).map(_graph)
deeds = st.integers(0, 60 * len(_SIZES) * 4 * 6 * 2 - 1).map(_deed)
_lives = st.lists(deeds, max_size=8) | st.lists(deeds, min_size=20, max_size=50)
client_histories = st.tuples(graphs, _lives).map(lambda drawn: drive(*drawn))


def drive(tasks: tuple[GraphTask, ...], wanted: list[Deed]) -> list[Commit]:
    """What was committed; what was refused or had nothing to do left no trace."""
    first = client_run(*tasks)
    run = fold(None, (first,))
    assert run is not None
    commits = [Commit((first,), None, run)]
    at = AT
    for deed in wanted:
        at += deed.later_sec
        decision = decide(run, deed_for(run, deed), at)
        if not isinstance(decision, Refused) and decision:
            after = fold(run, decision)
            assert after is not None
            commits.append(Commit(decision, run, after))
            run = after
    return commits


def deed_for(run: Run, deed: Deed) -> c.Command:
    possible = list(steps(run, deed)) if not deed.stray else []
    return possible[deed.pick % len(possible)] if possible else _stray(run, deed)


def steps(run: Run, deed: Deed) -> list[c.Command]:
    """What would move the run on, as it stands."""
    if run.is_terminal:
        return []
    if run.started_at is None:
        return [c.StartRun()]
    found: list[c.Command] = [c.PassTime()] if run.due else []
    for name, record in run.tasks.items():
        match record.state:
            case TaskStatus.READY:
                found.append(take(name, record.attempt + 1, worker_id="w" * deed.size))
            case TaskStatus.RUNNING:
                found += _at_work(name, deed)
            case TaskStatus.WAITING if record.wait is not None:
                payload = "p" * deed.size
                found.append(answer(name, record.wait.key, payload=payload, rejected=deed.flag, comment="ü"))
    return found


def _at_work(name: str, deed: Deed) -> list[c.Command]:
    end: c.Command = lost(name, code="E" * 9, message="é" * deed.size)
    if deed.flag:
        end = won(name, {"out": "z" * deed.size})
    return [end, end, asks(name), c.ReportProgress(task=name, progress=deed.pick, message="\x01" * deed.size)]


def _stray(run: Run, deed: Deed) -> c.Command:
    """Wanted however the run stands, as a late or mistaken request would."""
    name = f"t{deed.pick % (len(run.tasks) + 1)}"
    every: tuple[c.Command, ...] = (
        c.StartRun(),
        take(name, deed.pick % 3),
        won(name),
        lost(name),
        asks(name),
        answer(name, name),
        c.ReportProgress(task=name, progress=1),
        c.PassTime(),
        c.AddTag(tag="t", tags_max=2),
        c.ClaimRun(worker_id="w", instance_id="i", job_no=1),
        c.CancelRun() if deed.flag else c.PassTime(),
        c.ArchiveRun(),
        c.EraseRun() if deed.flag else c.ArchiveRun(),
    )
    return every[deed.pick % len(every)]
