"""Which figures of our own measurements the page shows, with what they should reach."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from bench.report.tables import table
from bench.summaries import short

Benches = Mapping[str, Mapping[str, float]]


class Shown(NamedTuple):
    """`goal` is what was aimed for; empty where only the figure is of interest."""

    title: str
    bench: str
    figure: str
    goal: str = ""


SHOWN = (
    Shown(
        "`POST /runs`/s, 64 clients, one gateway",
        "submit, durability interval",
        "POST /runs/s, 64 clients",
        "≥ 7,000",
    ),
    Shown("… in raw publishes, 3 a submit", "submit, durability interval", "ratio to raw"),
    Shown("`POST /runs`/s, `always`", "submit, durability always", "POST /runs/s, 64 clients"),
    Shown("chains, tasks/s, 8 slots", "tasks, durability interval", "chain_10: tasks/s, 8 slots", "≥ 4,500"),
    Shown(
        "fan-outs, tasks/s, 8 slots", "tasks, durability interval", "fan_100: tasks/s, 8 slots", "≥ 20,000"
    ),
    Shown(
        "W2, `always` in parts of `interval`",
        "what a client sees",
        "W2, always in parts of interval",
        "≥ 0.6",
    ),
    Shown("cancel → user code, p50 ms", "cancel", "POST cancel → user code sees it, p50 ms", "≤ 3"),
    Shown("cancel → CANCELLED, p50 ms", "cancel", "POST cancel → CANCELLED, p50 ms", "≤ 5"),
    Shown(
        "slot missing after a hard cancel, p50 ms", "hard cancel", "slot missing after a hard cancel, p50 ms"
    ),
    Shown("API key, % of a POST", "with and without keys", "POST /runs, share of the key in %", "≤ 5"),
    Shown("print → frame, p50 ms", "from print to frame", "ms from print to frame, 1 follower, p50", "≤ 25"),
    Shown(
        "first page of 10,000 events, cold ms",
        "an execution of 10 000 events",
        "first page of 10000 events, cold ms",
        "≤ 100",
    ),
    Shown("idle system, % of a core", "an idle system", "all, % of a core", "< 1"),
    Shown(
        "cost of a run with 100,000 stored runs, ratio",
        "cost of a run, 1 and 100 000 stored runs",
        "all, ratio, 100,000 stored runs",
        "1",
    ),
    Shown(
        "… with 1,000,000 stored runs",
        "cost of a run, 1 and 1 000 000 stored runs",
        "all, ratio, 1,000,000 stored runs",
        "1",
    ),
    Shown("… with 1,000 tags", "cost of a run, 1 and 1 000 tags", "all, ratio, 1,000 tags", "1"),
    Shown(
        "… with a worker of 1,000 tags",
        "cost of a run, a worker of 1 and of 1 000 tags",
        "all, ratio, a worker of 1,000 tags",
        "1",
    ),
    Shown("… with 200 workers", "cost of a run, 1 and 200 workers", "all, ratio, 200 workers", "1"),
    Shown(
        "list of 50 with 200,000 runs, ratio to 1,000", "lists at 1 000 and 200 000 runs", "/runs ratio", "1"
    ),
    Shown("1,000 watchers of one run, gateway MB", "1 000 watchers", "gateway MB, 1000 watchers of one run"),
    Shown("commands/s on one execution", "commands, durability interval", "commands/s on one execution"),
    Shown("commands/s on 32 executions", "commands, durability interval", "commands/s on 32 executions"),
    Shown("rechecks accepted/s", "rechecks, durability interval", "dry run, accepted/s, 16 clients"),
    Shown("up → first run, p50 s", "up to first run", "up → first completed run p50 s", "≤ 1.7"),
)


def own_table(benches: Benches) -> str:
    rows = [
        [shown.title, short(benches[shown.bench][shown.figure]), shown.goal]
        for shown in SHOWN
        if shown.figure in benches.get(shown.bench, {})
    ]
    return table(["", "measured", "goal"], rows)
