"""What can be measured, by the name that the command takes: titles and the functions that measure."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from bench.auth import auth_cost
from bench.client import client_view
from bench.cpu import cpu_costs
from bench.dashboard import dashboard_cost
from bench.engine import engine_overhead
from bench.executions import command_rate, long_history
from bench.idle import idle_cost
from bench.lists import list_cost
from bench.logs import long_logs, print_to_frame
from bench.long_tasks import longest_tasks
from bench.metrics import metrics_cost
from bench.recheck import accept_rate, page_cost
from bench.scaling import many_tags, many_workers, stored_runs, tags_of_one_worker
from bench.slots import replacement_cost
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
    "client": [("what a client sees", client_view)],
    "cpu": [("processor time and context switches per run", cpu_costs)],
    "idle": [("an idle system", idle_cost)],
    "engine": [("engine alone", engine_overhead)],
    "cancel": [("cancel", cancel_cost), ("hard cancel", replacement_cost)],
    "print": [("printing", print_cost)],
    "lists": [("lists at 1 000 and 200 000 runs", list_cost)],
    "metrics": [("metrics at 1 000 and 200 000 runs", metrics_cost)],
    "executions": [
        ("commands, durability interval", lambda: command_rate("interval")),
        ("commands, durability always", lambda: command_rate("always")),
        ("an execution of 10 000 events", long_history),
    ],
    "scaling": [
        ("cost of a run, 1 and 100 000 stored runs", stored_runs),
        ("cost of a run, 1 and 1 000 tags", many_tags),
        ("cost of a run, a worker of 1 and of 1 000 tags", tags_of_one_worker),
        ("cost of a run, 1 and 200 workers", many_workers),
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
    "dashboard": [
        ("the dashboard at 100 000 runs", dashboard_cost),
        ("its longest tasks at 100 000 runs", longest_tasks),
    ],
    "million": [
        ("lists at 1 000 and 1 000 000 runs", lambda: list_cost(many=1_000_000)),
        ("metrics at 1 000 and 1 000 000 runs", lambda: metrics_cost(many=1_000_000)),
        ("cost of a run, 1 and 1 000 000 stored runs", lambda: stored_runs(stored=1_000_000)),
    ],
}
