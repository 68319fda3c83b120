"""Flows that do nothing, as fast as they can."""

from __future__ import annotations

from pyoco import Flow, task


def resolve(flow_name: str) -> Flow:
    kind, _, count = flow_name.partition("_")
    return {"noop": _noop, "chain": _chain, "fan": _fan}[kind](int(count or 1))


def _noop(_count: int) -> Flow:
    @task
    def nothing() -> None:
        return None

    flow: Flow = Flow(name="noop") >> nothing
    return flow


def _chain(count: int) -> Flow:
    flow = Flow(name="chain")
    for number in range(count):
        step = task(lambda: None)
        step.task.name = f"step_{number}"
        flow = flow >> step
    return flow


def _fan(count: int) -> Flow:
    flow = Flow(name="fan")
    for number in range(count):
        step = task(lambda: None)
        step.task.name = f"step_{number}"
        flow.add_task(step.task)
    return flow
