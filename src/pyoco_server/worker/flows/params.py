"""The parameters of a flow: those of its tasks that no result of another task and no input provides.

Reported with the flows that a resolver lists, so that a form can show them before the first run. They are
inspected in a process that is killed when the time is up: a resolver that blocks or breaks there does not
affect other processes.

A parameter has the text of its type, and its type as JSON Schema as far as there is room for it.
"""

from __future__ import annotations

import inspect
import os
import select
import signal
from collections.abc import Callable, Collection, Iterable
from typing import Any, NoReturn

import msgspec
from pyoco.core.models import Flow, Task

from pyoco_server.engine.tasks.failure import try_call
from pyoco_server.flows.waits import WaitTask
from pyoco_server.worker.flows.json_schemas import schema_of

# For all flows together: the start of a worker does not wait longer for this.
INSPECT_SEC_MAX = 0.5
PARAMS_MAX = 30
DEFAULT_BYTES_MAX = 200
TYPE_CHARS_MAX = 40
# Of all parameters: they are part of the worker's registry entry, which is written every few seconds.
REPORTED_BYTES_MAX = 16 * 1024
# What a pipe takes in one write: the parameters, and the names and commas around them.
PIPE_BYTES = 64 * 1024

Params = list[dict[str, Any]]

_STARS = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def inspect_params(names: Collection[str], resolve: Callable[[str], Flow]) -> dict[str, Params]:
    """Call it before this process has threads. Empty for a resolver that is too slow."""
    if not names:
        return {}
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _inspect_in_child(writing, names, resolve)
    os.close(writing)
    try:
        # No other process holds the child's end of the pipe for longer than the child runs: a short time.
        is_ready, _, _ = select.select([reading], [], [], 2 * INSPECT_SEC_MAX)
        data = os.read(reading, PIPE_BYTES) if is_ready else b""
    finally:
        os.close(reading)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return msgspec.json.decode(data, type=dict[str, Params]) if data else {}


def _inspect_in_child(writing: int, names: Iterable[str], resolve: Callable[[str], Flow]) -> NoReturn:
    """Writes everything at once, and exits."""
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, INSPECT_SEC_MAX)
        os.write(writing, msgspec.json.encode(params_by_flow(names, resolve)))
    finally:
        os._exit(0)


def params_by_flow(names: Iterable[str], resolve: Callable[[str], Flow]) -> dict[str, Params]:
    """By the names of flows. Those that cannot be resolved are left out: a run reports the error."""
    whole: dict[str, Params] = {}
    found: dict[str, Params] = {}
    room = REPORTED_BYTES_MAX
    for name in names:
        params = try_call(_resolve_params, name, resolve, on_error=_leave_out, also=(SystemExit,))
        if params is None:
            continue
        whole[name], found[name] = params, _without_schemas(params)
        room -= _size(found[name]) + len(name)
        if room < 0:
            del found[name]
            break
    return _with_schemas(found, whole, room)


def _with_schemas(found: dict[str, Params], whole: dict[str, Params], room: int) -> dict[str, Params]:
    """Schemas get the room that names and defaults leave: of the first flows, as far as it lasts."""
    for name, params in found.items():
        room -= _size(whole[name]) - _size(params)
        if room < 0:
            break
        found[name] = whole[name]
    return found


def _without_schemas(params: Params) -> Params:
    return [{key: value for key, value in one.items() if key != "schema"} for one in params]


def _size(params: Params) -> int:
    return len(msgspec.json.encode(params))


def _resolve_params(name: str, resolve: Callable[[str], Flow]) -> Params:
    return params_of(resolve(name))


def _leave_out(_error: BaseException) -> None:
    return None


def params_of(flow: Flow) -> Params:
    """In the order of names; a parameter of several tasks is listed once."""
    filled = {task.name for task in flow.tasks}
    found: dict[str, dict[str, Any]] = {}
    for task in sorted(flow.tasks, key=lambda task: task.name):
        for one in _parameters(task):
            if one.name not in filled and one.name not in found:
                found[one.name] = _as_json(one, task)
    return [found[name] for name in sorted(found)][:PARAMS_MAX]


def _parameters(task: Task) -> list[inspect.Parameter]:
    if isinstance(task.func, WaitTask):
        return []  # people answer it
    try:
        parameters = inspect.signature(task.func).parameters.values()
    except (TypeError, ValueError):  # not every callable has a signature
        return []
    given = {"ctx", *(task.inputs or ())}
    return [one for one in parameters if one.kind not in _STARS and one.name not in given]


def _as_json(one: inspect.Parameter, task: Task) -> dict[str, Any]:
    required = one.default is inspect.Parameter.empty
    described: dict[str, Any] = {"name": one.name, "required": required}
    if not required and _is_plain(one.default):
        described["default"] = one.default
    if one.annotation is not inspect.Parameter.empty:
        written = (
            one.annotation if isinstance(one.annotation, str) else inspect.formatannotation(one.annotation)
        )
        described["type"] = written[:TYPE_CHARS_MAX]
    if (schema := schema_of(one, task.func)) is not None:
        described["schema"] = schema
    return described


def _is_plain(value: Any) -> bool:
    """A small value that JSON can represent."""
    if not isinstance(value, str | int | float | bool | list | dict | None):
        return False
    try:
        return len(msgspec.json.encode(value)) <= DEFAULT_BYTES_MAX
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError):
        return False
