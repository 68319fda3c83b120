"""A worker that evaluates strategies as they are named: what a flow returns for each is in its name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from pyoco_server.config import NatsBackendConfig
from tests.worker.stage import Flows, one_task, working

GOOD = {"winrate": 0.52, "sharpe": 0.80, "max_dd": 0.10}
CHART = {"kind": "chart", "name": "équité.svg", "content_type": "image/svg+xml", "content": "<svg/>"}


class Evaluating:
    """Writes down what it was given. `returns`: of one strategy; an exception is raised for the batch."""

    def __init__(self, **returns: Any) -> None:
        self.returns = returns
        self.given: list[dict[str, Any]] = []

    def __call__(
        self,
        request_id: str,
        strategies: list[str],
        window: Any,
        reason: str,
        params: dict[str, Any],
        trace_id: str | None,
        client_id: str,
    ) -> dict[str, Any]:
        self.given.append(
            {
                "request_id": request_id,
                "strategies": strategies,
                "window": window,
                "reason": reason,
                "params": params,
                "trace_id": trace_id,
                "client_id": client_id,
            }
        )
        found = {one: self.returns.get(one.removeprefix("strat."), {"metrics": GOOD}) for one in strategies}
        for returned in found.values():
            if isinstance(returned, Exception):
                raise returned
        return found


@asynccontextmanager
async def evaluating(config: NatsBackendConfig, **returns: Any) -> AsyncIterator[Evaluating]:
    """A worker that serves until the test is over."""
    flow = Evaluating(**returns)
    flows = Flows(pdca_recheck=one_task(flow), other=one_task(flow))
    async with working(config, flows) as worker:
        serving = asyncio.create_task(worker.serve())
        yield flow
        worker.stop()
        await serving
