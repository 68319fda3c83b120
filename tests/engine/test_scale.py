"""Large flows cost in proportion to their size, and never more threads than asked for. Counted, not timed."""

import threading

import pytest
from pyoco.core.models import Flow, RunContext
from pyoco.dsl.syntax import task

from pyoco_server.engine import Engine, OutcomeStatus
from pyoco_server.engine.walk.graph import ReadySet
from pyoco_server.engine.walk.scheduler import Scheduler
from tests.engine.building import DEADLINE_SEC, flow_of, make_task

TASKS = 2000
STEPS_PER_TASK = 3  # its end, its acknowledgement, and a look at the mailbox after its start


class Steps:
    """Counts what the scheduler does: events handled and edges visited."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pumped = 0
        self.edges = 0
        pump, decide = Scheduler._pump, ReadySet._decide

        def counted_pump(supervisor: Scheduler, until: float) -> None:
            self.pumped += 1
            pump(supervisor, until)

        def counted_decide(ready: ReadySet, name: str, success: int) -> list[str]:
            touched = decide(ready, name, success)
            self.edges += len(touched)
            return touched

        monkeypatch.setattr(Scheduler, "_pump", counted_pump)
        monkeypatch.setattr(ReadySet, "_decide", counted_decide)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    return Steps(monkeypatch)


def chain(length: int) -> Flow:
    tasks = [make_task("t0", lambda: 0)]
    for index in range(1, length):
        tasks.append(make_task(f"t{index}", lambda: 0, [tasks[-1]]))
    return flow_of(*tasks)


def fan(width: int) -> Flow:
    root = make_task("root", lambda: 0)
    leaves = [make_task(f"t{index}", lambda: 0, [root]) for index in range(width)]
    return flow_of(root, *leaves, make_task("join", lambda: 0, leaves))


def test_a_chain_of_2000_takes_three_steps_a_task(steps: Steps) -> None:
    assert Engine().run(chain(TASKS)).status is OutcomeStatus.COMPLETED
    assert steps.pumped <= STEPS_PER_TASK * TASKS
    assert steps.edges == TASKS - 1


def test_a_fan_out_of_2000_takes_three_steps_a_task(steps: Steps) -> None:
    outcome = Engine().run(fan(TASKS))
    assert outcome.status is OutcomeStatus.COMPLETED
    assert len(outcome.results) == TASKS + 2
    assert steps.pumped <= STEPS_PER_TASK * (TASKS + 2)
    assert steps.edges == 2 * TASKS


def test_an_isolated_failure_runs_down_a_chain_of_2000_in_as_many_steps(steps: Steps) -> None:
    flow = chain(TASKS)
    first = next(task for task in flow.tasks if task.name == "t0")
    first.func, first.fail_policy = lambda: 1 / 0, "isolate"
    assert Engine().run(flow).status is OutcomeStatus.COMPLETED
    assert steps.edges == TASKS - 1


def loop(iterations: int) -> Flow:
    @task
    def step() -> int:
        return 0

    flow: Flow = Flow() >> step[iterations]
    return flow


def test_a_loop_of_2000_takes_three_steps_an_iteration(steps: Steps) -> None:
    context = RunContext()
    assert Engine().run(loop(TASKS), run_context=context).status is OutcomeStatus.COMPLETED
    assert len(context.tasks) == TASKS + 1
    assert steps.pumped <= STEPS_PER_TASK * (TASKS + 1)


def test_a_loop_whose_iterations_are_recorded_takes_no_steps_but_the_missing_ones(steps: Steps) -> None:
    recorded = {f"step[{index}]": 0 for index in range(TASKS - 1)}
    assert Engine().run(loop(TASKS), recorded=recorded).status is OutcomeStatus.COMPLETED
    assert steps.pumped <= STEPS_PER_TASK * 2


@pytest.mark.parametrize("parallelism", [1, 3])
def test_as_many_tasks_run_at_once_as_asked_for_and_never_more(parallelism: int) -> None:
    lock = threading.Lock()
    all_at_once = threading.Barrier(parallelism)
    now, most = 0, 0

    def work() -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        all_at_once.wait(DEADLINE_SEC)
        with lock:
            now -= 1

    tasks = [make_task(f"t{index}", work) for index in range(4 * parallelism)]
    assert Engine(parallelism=parallelism).run(flow_of(*tasks)).status is OutcomeStatus.COMPLETED
    assert most == parallelism


def test_a_chain_needs_one_thread() -> None:
    threads: set[int] = set()
    a = make_task("a", lambda: threads.add(threading.get_ident()))
    b = make_task("b", lambda: threads.add(threading.get_ident()), [a])
    c = make_task("c", lambda: threads.add(threading.get_ident()), [b])
    Engine().run(flow_of(a, b, c))
    assert len(threads) == 1
    assert threading.get_ident() not in threads


def test_a_run_uses_the_threads_that_the_one_before_it_left() -> None:
    used: list[int] = []
    for _ in range(20):
        Engine(parallelism=4).run(flow_of(make_task("only", lambda: used.append(threading.get_ident()))))
    assert len(set(used)) < len(used)


def test_parallelism_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Engine(parallelism=0)
