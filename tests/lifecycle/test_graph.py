"""What a graph has to be: each thing wrong with one is named, with the task it is about."""

import pytest

from pyoco_server.lifecycle.graph import Graph, GraphTask, RetryPolicy, graph_problems, last_of, named_only
from tests.lifecycle.support.graphs import task


def problems(*tasks: GraphTask) -> list[tuple[str | None, str]]:
    return [(one.task, one.message) for one in graph_problems(Graph(id="g", version=1, nodes=tasks))]


def test_a_graph_that_can_be_run_has_no_problems() -> None:
    assert problems(task("a"), task("b.1-x_Y", "a"), task("c", "a", "b.1-x_Y")) == []


@pytest.mark.parametrize("count", [0, 1001])
def test_it_has_one_to_a_thousand_tasks(count: int) -> None:
    ((where, message),) = problems(*(task(f"t{n}") for n in range(count)))
    assert where is None
    assert f"this one has {count}" in message
    assert problems(*(task(f"t{n}") for n in range(1000))) == []


@pytest.mark.parametrize(
    ("wrong", "about"),
    [
        (task("a b"), "letters"),
        (task(""), "letters"),
        (task("x" * 65), "letters"),
        (task("ok"), "used twice"),
        (task("a", "nowhere"), "'nowhere'"),
        (task("a", "ok", "ok"), "twice in 'after'"),
        (task("a", retry=RetryPolicy(max_attempts=0)), "max_attempts"),
        (task("a", retry=RetryPolicy(max_attempts=1001)), "max_attempts"),
        (task("a", retry=RetryPolicy(backoff_sec=-1)), "backoff_sec"),
        (task("a", retry=RetryPolicy(backoff_sec=float("nan"))), "backoff_sec"),
        (task("a", retry=RetryPolicy(factor=0.5)), "factor"),
        (task("a", timeout_sec=0), "'timeout_sec'"),
        (task("a", timeout_sec=float("inf")), "'timeout_sec'"),
        (task("a", wait_timeout_sec=-1), "'wait_timeout_sec'"),
        (task("a", wait_key=""), "'wait_key'"),
    ],
)
def test_what_is_wrong_is_said_with_the_task_it_is_about(wrong: GraphTask, about: str) -> None:
    ((where, message),) = problems(task("ok"), wrong)
    assert where == wrong.id
    assert about in message


def test_a_circle_is_found_and_shown_all_the_way_round() -> None:
    ((where, message),) = problems(task("z"), task("a", "c"), task("b", "a"), task("c", "b", "z"))
    assert where == "a"
    assert message == "It comes after itself: a → b → c → a."
    assert problems(task("self", "self"))[0][0] == "self"


def test_the_last_ones_are_those_that_nothing_comes_after() -> None:
    nodes = (task("a"), task("b", "a"), task("c", "a"))
    assert last_of(Graph(id="g", version=1, nodes=nodes)) == ("b", "c")


def test_without_its_tasks_it_still_has_its_name() -> None:
    graph = Graph(id="g", version=7, nodes=(task("a"),))
    assert named_only(graph) == Graph(id="g", version=7)
    assert named_only(None) is None
