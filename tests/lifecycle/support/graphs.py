"""Client-driven runs to try: a graph in a few words, what is asked of its tasks, and runs led somewhere."""

from typing import Any

from pyoco_server.lifecycle import commands as c
from pyoco_server.lifecycle import events as e
from pyoco_server.lifecycle.decide import Refused, decide
from pyoco_server.lifecycle.graph import Graph, GraphTask, Join, TaskKind
from pyoco_server.lifecycle.reduce import fold
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import Driver
from tests.lifecycle.support.alphabet import AT, submitted


def task(name: str, *after: str, join: Join = Join.ALL_SUCCESS, **more: Any) -> GraphTask:
    return GraphTask(id=name, after=after, join=join, **more)


def wait_for(name: str, *after: str, join: Join = Join.ALL_SUCCESS, **more: Any) -> GraphTask:
    return GraphTask(id=name, type=TaskKind.WAIT, after=after, join=join, **more)


def client_run(*tasks: GraphTask, **changes: Any) -> e.RunSubmitted:
    graph = Graph(id="g", version=1, nodes=tasks)
    return submitted(driver=Driver.CLIENT, graph=graph, flow_name="graph:g", **changes)


START = c.StartRun()
PASS = c.PassTime()


def take(name: str, attempt: int = 1, worker_id: str = "w") -> c.TakeTask:
    return c.TakeTask(task=name, attempt=attempt, worker_id=worker_id)


def won(name: str, output: Any = None) -> c.SucceedClientTask:
    return c.SucceedClientTask(task=name, output=output)


def lost(name: str, code: str = "E", message: str = "boom") -> c.FailClientTask:
    return c.FailClientTask(task=name, code=code, message=message)


def asks(name: str, key: str = "k") -> c.PutWaiting:
    return c.PutWaiting(task=name, wait_key=key)


def answer(name: str, key: str = "k", **more: Any) -> c.ResumeTask:
    return c.ResumeTask(task=name, wait_key=key, **more)


class Led:
    """A run and what happened to it: asked one thing after the other, at instants after `AT`."""

    def __init__(self, submission: e.RunSubmitted) -> None:
        run = fold(None, (submission,))
        assert run is not None
        self.run: Run = run
        self.said: tuple[e.Event, ...] = ()

    def ask(self, *commands: c.Command, after_sec: float = 0.0) -> "Led":
        """None of it in vain; `said` is what the last of them gave."""
        for command in commands:
            decision = decide(self.run, command, AT + after_sec)
            assert not isinstance(decision, Refused), (command, decision)
            self.said = decision
            self.run = fold(self.run, decision) or self.run
        return self

    @property
    def states(self) -> dict[str, str]:
        return {name: record.state.value for name, record in self.run.tasks.items()}

    @property
    def kinds(self) -> list[str]:
        """What was said last, with the task it is about."""
        return [f"{type(one).__name__}({getattr(one, 'task', None) or ''})" for one in self.said]


def led(*tasks: GraphTask) -> Led:
    return Led(client_run(*tasks)).ask(START)
