"""Background work is supervised: a bare task whose error nothing hears of is not begun."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.repository import PACKAGE, dotted, parsed, python_files

BEGIN = {"create_task", "ensure_future"}

# By file and function, with the reason why a task is neither a loop nor started by `start_task`. Adding a row
# is a decision to be defended in review; a row that is no longer needed fails the test.
ALLOWED: dict[str, str] = {
    "cli/admin/broker.py:connect_in_time": "its result is read or it is cancelled by that function",
    "cli/server/gateway.py:start": "`_serve` contains its error; `stop` awaits it; `up` waits for its end",
    "cli/server/up.py:_first": "waits for events; ended by the function that begins it",
    "cli/server/up.py:_until_ready": "awaited or cancelled by the function that begins it",
    "cli/worker/process.py:_connect": "awaited by the function that begins it",
    "cli/worker/process.py:_first_of": "waits for an event; ended by its caller",
    "cli/worker/process.py:_serve": "awaited by the function that begins it",
    "cli/worker/process.py:_serve_one": "awaited by the function that begins it",
    "http_api/requests/connected.py:while_connected": "of one request, which awaits or cancels it",
    "http_api/requests/connected.py:watch": "of one request, which cancels it",
    "http_api/faces/jobs/socket.py:run": "of one connection, which awaits or cancels it",
    "http_api/streaming/sse.py:_serve": "of one request, which cancels it",
    "operations/live/shared_views.py:_acquire": "awaited by all subscribers; cancelled with the last one",
    "operations/identity/slow_keys.py:fits": "awaited by every request that asks the same",
    "store/runs/snapshots.py:_create": "awaited by all who need the bucket",
    "supervision/loop.py:start": "the loop itself",
    "supervision/loop.py:start_task": "the supervised task itself",
    "worker/recording/run_log.py:_wait_for_writer": "waits for an event; ended by its caller",
}


def test_no_task_is_begun_that_nothing_supervises() -> None:
    found = Counter(place for path in python_files(PACKAGE) for place in bare_tasks(path))
    unknown = sorted(found.keys() - ALLOWED.keys())
    assert not unknown, f"use supervision.Loop where it repeats, `start_task` where it does not: {unknown}"
    assert not (unneeded := sorted(ALLOWED.keys() - found.keys())), f"no longer needed: {unneeded}"


def bare_tasks(path: Path) -> Iterator[str]:
    for function in ast.walk(parsed(path)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and _is_beginning(node.func):
                    yield f"{path.relative_to(PACKAGE).as_posix()}:{function.name}"


def _is_beginning(called: ast.expr) -> bool:
    """By its last name: what stands before it may be a call, as in `get_running_loop().create_task`."""
    name = called.attr if isinstance(called, ast.Attribute) else dotted(called)
    return name in BEGIN
