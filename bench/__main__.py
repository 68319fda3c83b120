"""`python -m bench [name …]` runs the named measurements; without a name, all except the long ones."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable

import uvloop

from bench.auth import auth_cost
from bench.cpu import cpu_costs
from bench.dashboard import dashboard_cost
from bench.engine import engine_overhead
from bench.executions import command_rate, long_history
from bench.lists import list_cost
from bench.logs import long_logs, print_to_frame
from bench.metrics import metrics_cost
from bench.peers import compare
from bench.recheck import accept_rate, page_cost
from bench.start import up_to_first_run
from bench.submit import end_to_end, submit_rate
from bench.watch import watcher_cost
from bench.worker import cancel_cost, print_cost, task_rates, worker_rates

Figures = dict[str, float]

BENCHES: dict[str, list[tuple[str, Callable[[], Awaitable[Figures]]]]] = {
    "submit": [
        ("submit, durability interval", lambda: submit_rate("interval")),
        ("submit, durability always", lambda: submit_rate("always")),
    ],
    "latency": [
        ("end to end, durability interval", lambda: end_to_end("interval")),
        ("end to end, durability always", lambda: end_to_end("always")),
    ],
    "worker": [
        ("runs, durability interval", lambda: worker_rates("interval")),
        ("runs, durability always", lambda: worker_rates("always")),
        ("tasks, durability interval", lambda: task_rates("interval")),
        ("tasks, durability always", lambda: task_rates("always")),
    ],
    "cpu": [("processor time per run", cpu_costs)],
    "engine": [("engine alone", engine_overhead)],
    "cancel": [("cancel", cancel_cost)],
    "print": [("printing", print_cost)],
    "lists": [("lists at 1 000 and 200 000 runs", list_cost)],
    "metrics": [("metrics at 1 000 and 200 000 runs", metrics_cost)],
    "executions": [
        ("commands, durability interval", lambda: command_rate("interval")),
        ("commands, durability always", lambda: command_rate("always")),
        ("an execution of 10 000 events", long_history),
    ],
    "watch": [("1 000 watchers", watcher_cost)],
    "logs": [
        ("from print to frame", print_to_frame),
        ("logs of 1 000 and 1 000 000 lines", long_logs),
    ],
    "auth": [("with and without keys", auth_cost)],
    "recheck": [
        ("rechecks, durability interval", lambda: accept_rate("interval")),
        ("rechecks, durability always", lambda: accept_rate("always")),
        ("strategies, 100 and 100 000", page_cost),
    ],
    "up": [("up to first run", up_to_first_run)],
}

# These take minutes, so they run only if they are named.
LONG: dict[str, list[tuple[str, Callable[[], Awaitable[Figures]]]]] = {
    "dashboard": [("the dashboard at 100 000 runs", dashboard_cost)],
    "million": [
        ("lists at 1 000 and 1 000 000 runs", lambda: list_cost(many=1_000_000)),
        ("metrics at 1 000 and 1 000 000 runs", lambda: metrics_cost(many=1_000_000)),
    ],
}


async def main(names: list[str]) -> None:
    known = BENCHES | LONG
    if unknown := [name for name in names if name not in known]:
        raise SystemExit(f"no such bench: {', '.join(unknown)}; there are {', '.join(known)}")
    for name in names or list(BENCHES):
        for title, bench in known[name]:
            print(f"\n## {title}")
            for what, figure in (await bench()).items():
                print(f"{what:<48} {figure:>12.2f}")


if sys.argv[1:2] == ["peers"]:
    compare.main(sys.argv[2:])
else:
    uvloop.run(main(sys.argv[1:]))
