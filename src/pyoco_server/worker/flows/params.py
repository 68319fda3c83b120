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
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NoReturn

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
# What a pipe takes without a reader: the parameters twice, and the names and commas around them.
PIPE_BYTES = 64 * 1024
_END = b"\n\n"  # an empty line after the last one

Params = list[dict[str, object]]

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
        lines = _lines_of(reading)
    finally:
        os.close(reading)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    found: dict[str, Params] = {}
    for line in lines:
        found |= msgspec.json.decode(line, type=dict[str, Params])
    return found


def _lines_of(reading: int) -> list[bytes]:
    """The whole lines that came in time."""
    data, give_up_at = b"", time.monotonic() + 2 * INSPECT_SEC_MAX
    while not data.endswith(_END) and (left := give_up_at - time.monotonic()) > 0:
        # No other process holds the child's end of the pipe for longer than the child runs: a short time.
        is_ready, _, _ = select.select([reading], [], [], left)
        if not is_ready or not (more := os.read(reading, PIPE_BYTES)):
            break
        data += more
    return [line for line in data.split(b"\n")[:-1] if line]


def _inspect_in_child(writing: int, names: Iterable[str], resolve: Callable[[str], Flow]) -> NoReturn:
    """Writes a line for each portion, and exits."""
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, INSPECT_SEC_MAX)
        for portion in _portions(names, resolve):
            os.write(writing, msgspec.json.encode(portion) + b"\n")
        os.write(writing, b"\n")
    finally:
        os._exit(0)


def params_by_flow(names: Iterable[str], resolve: Callable[[str], Flow]) -> dict[str, Params]:
    """By the names of flows. Those that cannot be resolved are left out: a run reports the error."""
    found: dict[str, Params] = {}
    for portion in _portions(names, resolve):
        found |= portion
    return found


def _portions(names: Iterable[str], resolve: Callable[[str], Flow]) -> Iterator[dict[str, Params]]:
    """All flows without schemas, then one flow after the other with them.

    To describe a type executes code of users, and takes a millisecond or more for a model. If the time is up
    meanwhile, the parameters are known all the same. Schemas get the room that names and defaults leave: of
    the first flows, as far as it lasts.
    """
    flows: dict[str, Flow] = {}
    found: dict[str, Params] = {}
    room = REPORTED_BYTES_MAX
    for name in names:
        resolved = try_call(_resolve_params, name, resolve, on_error=_leave_out, also=(SystemExit,))
        if resolved is None:
            continue
        room -= _size(resolved[1]) + len(name)
        if room < 0:
            break
        flows[name], found[name] = resolved
    yield found
    for name, params in found.items():
        if room < 0:
            break
        whole = try_call(params_of, flows[name], on_error=_leave_out, also=(SystemExit,)) or params
        room -= _size(whole) - _size(params)
        if room >= 0:
            yield {name: whole}


def _size(params: Params) -> int:
    return len(msgspec.json.encode(params))


def _resolve_params(name: str, resolve: Callable[[str], Flow]) -> tuple[Flow, Params]:
    flow = resolve(name)
    return flow, params_of(flow, with_schemas=False)


def _leave_out(_error: BaseException) -> None:
    return None


def params_of(flow: Flow, *, with_schemas: bool = True) -> Params:
    """In the order of names; a parameter of several tasks is listed once."""
    filled = {task.name for task in flow.tasks}
    found: dict[str, dict[str, object]] = {}
    for task in sorted(flow.tasks, key=lambda task: task.name):
        for one in _parameters(task):
            if one.name not in filled and one.name not in found:
                found[one.name] = _as_json(one, task, with_schemas)
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


def _as_json(one: inspect.Parameter, task: Task, with_schema: bool) -> dict[str, object]:
    required = one.default is inspect.Parameter.empty
    described: dict[str, object] = {"name": one.name, "required": required}
    if not required and _is_plain(one.default):
        described["default"] = one.default
    if one.annotation is not inspect.Parameter.empty:
        written = (
            one.annotation if isinstance(one.annotation, str) else inspect.formatannotation(one.annotation)
        )
        described["type"] = written[:TYPE_CHARS_MAX]
    if with_schema and (schema := schema_of(one, task.func)) is not None:
        described["schema"] = schema
    return described


def _is_plain(value: object) -> bool:
    """A small value that JSON can represent."""
    if not isinstance(value, str | int | float | bool | list | dict | None):
        return False
    try:
        return len(msgspec.json.encode(value)) <= DEFAULT_BYTES_MAX
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError):
        return False
