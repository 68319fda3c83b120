"""What the worker of the tour can run, and the strategies that it evaluates."""

from __future__ import annotations

from typing import Any

from pyoco.core.models import Flow

from pyoco_server import approval
from tests.engine.building import flow_of, make_task
from tests.recheck.stage import CHART, Evaluating
from tests.worker.stage import Flows, one_task

CATALOGUE = """
strategies:
  - {id: strat.meanrev.m1, title: Mean reversion, instrument: USDJPY, tags: [daily],
     owner: desk-2, metadata: {since: 2019}}
"""
METRICS = {"winrate": 0.55, "sharpe": 1.1, "max_dd": 0.04}
# More than a commit holds: stored as an object.
LARGE = "x" * 900_000


def extract() -> dict[str, int]:
    print("3 orders found")  # noqa: T201
    return {"orders": 3}


def report() -> dict[str, Any]:
    print("report written")  # noqa: T201
    return {"file": "orders.csv", "lines": 3}


def load() -> None:
    raise ValueError("The table orders is locked.")


def _daily_report() -> Flow:
    first = make_task("extract", extract)
    return flow_of(first, make_task("report", report, [first]))


def _release() -> Flow:
    flow: Flow = Flow("release") >> approval("approve", {"question": "Release 1.4?"})
    return flow


FLOWS = Flows(
    daily_report=_daily_report,
    main=_daily_report,
    load_orders=one_task(load),
    release=_release,
    export=one_task(lambda: LARGE),
    pdca_recheck=one_task(Evaluating(**{"meanrev.m1": {"metrics": METRICS, "artifacts": [CHART]}})),
)
