"""What a flow may be given: parameters of its tasks that no other task's result and no input fills.

Reported with the flows that a resolver lists, so that a form can be filled in before the first run. Best
effort and bounded: they are inspected in a process that is ended when the time is up. What a resolver
blocks, breaks or opens there does not affect other processes.
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

from pyoco_server.flows.waits import WaitTask

# For all flows together: a worker does not wait longer for words about them.
LOOK_SEC_MAX = 0.5
PARAMS_MAX = 30
DEFAULT_BYTES_MAX = 200
TYPE_CHARS_MAX = 40
# Of everything that is reported: it is part of the worker's entry, which is written every few seconds.
TOLD_BYTES_MAX = 16 * 1024
# What a pipe takes in one write: names and commas come to what is told.
PIPE_BYTES = 64 * 1024

Params = list[dict[str, Any]]

_STARS = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def looked_at(names: Collection[str], resolve: Callable[[str], Flow]) -> dict[str, Params]:
    """Call it before this process has threads. Of a resolver that is slow or fails they are missing."""
    if not names:
        return {}
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _tell(writing, names, resolve)
    os.close(writing)
    try:
        # No other process holds the child's end of the pipe for longer than the child runs: a short time.
        is_told, _, _ = select.select([reading], [], [], 2 * LOOK_SEC_MAX)
        told = os.read(reading, PIPE_BYTES) if is_told else b""
    finally:
        os.close(reading)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return msgspec.json.decode(told, type=dict[str, Params]) if told else {}


def _tell(writing: int, names: Iterable[str], resolve: Callable[[str], Flow]) -> NoReturn:
    """The child: writes what it has found at once, and exits."""
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, LOOK_SEC_MAX)
        os.write(writing, msgspec.json.encode(params_by_flow(names, resolve)))
    finally:
        os._exit(0)


def params_by_flow(names: Iterable[str], resolve: Callable[[str], Flow]) -> dict[str, Params]:
    """By the names of flows; those that cannot be looked at are left out."""
    told: dict[str, Params] = {}
    room = TOLD_BYTES_MAX
    for name in names:
        try:
            params = params_of(resolve(name))
        except (Exception, SystemExit):  # user code: a run of this flow will report what is wrong
            continue
        room -= len(msgspec.json.encode(params)) + len(name)
        if room < 0:
            break
        told[name] = params
    return told


def params_of(flow: Flow) -> Params:
    """In the order of names; a parameter that several tasks take is told once."""
    filled = {task.name for task in flow.tasks}
    found: dict[str, dict[str, Any]] = {}
    for task in sorted(flow.tasks, key=lambda task: task.name):
        for one in _parameters(task):
            if one.name not in filled:
                found.setdefault(one.name, _described(one))
    return [found[name] for name in sorted(found)][:PARAMS_MAX]


def _parameters(task: Task) -> list[inspect.Parameter]:
    if isinstance(task.func, WaitTask):
        return []  # what it asks is asked of people
    try:
        parameters = inspect.signature(task.func).parameters.values()
    except (TypeError, ValueError):  # not every callable has a signature
        return []
    given = {"ctx", *(task.inputs or ())}
    return [one for one in parameters if one.kind not in _STARS and one.name not in given]


def _described(one: inspect.Parameter) -> dict[str, Any]:
    required = one.default is inspect.Parameter.empty
    said: dict[str, Any] = {"name": one.name, "required": required}
    if not required and _is_plain(one.default):
        said["default"] = one.default
    if one.annotation is not inspect.Parameter.empty:
        written = (
            one.annotation if isinstance(one.annotation, str) else inspect.formatannotation(one.annotation)
        )
        said["type"] = written[:TYPE_CHARS_MAX]
    return said


def _is_plain(value: Any) -> bool:
    """A small value that JSON can represent."""
    if not isinstance(value, str | int | float | bool | list | dict | None):
        return False
    try:
        return len(msgspec.json.encode(value)) <= DEFAULT_BYTES_MAX
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError):
        return False
