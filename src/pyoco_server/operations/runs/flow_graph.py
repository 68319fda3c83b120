"""The graph of a run's flow: its tasks and their dependencies, from the log of the run."""

from __future__ import annotations

from typing import NamedTuple

from pyoco_server.lifecycle.task_order import TaskOrder, task_order_of
from pyoco_server.operations.runs.query import get_run
from pyoco_server.store.store import Store


class FlowNode(NamedTuple):
    """`join`: which ends of the tasks in `after` let it start: `all_success`, `any_success` or `all_done`."""

    name: str
    after: list[str]
    join: str
    kind: str = "task"


class FlowGraph(NamedTuple):
    """`is_wired`: the dependencies are known. Otherwise the tasks are in their planned order."""

    run_id: str
    tasks: list[FlowNode]
    is_wired: bool


async def get_flow_graph(store: Store, run_id: str, *, tenant_id: str | None) -> FlowGraph:
    """Empty for a run that has not started. NotFound as for the run itself."""
    run = (await get_run(store, run_id, tenant_id=tenant_id)).run
    if run.graph is not None:
        nodes = [FlowNode(node.id, list(node.after), node.join, node.type) for node in run.graph.nodes]
        return FlowGraph(run_id, nodes, is_wired=True)
    commits = await store.runs.events(run_id)
    order = task_order_of(event for _, events in commits for event in events)
    is_wired = order.needs is not None or len(order.planned) == 1
    return FlowGraph(run_id, [_planned(order, name) for name in order.planned], is_wired)


def _planned(order: TaskOrder, name: str) -> FlowNode:
    after = (order.needs or {}).get(name, [])
    return FlowNode(name, after, "any_success" if name in order.any_of else "all_success")
