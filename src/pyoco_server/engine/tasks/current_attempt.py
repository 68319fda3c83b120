"""The attempt that the current code belongs to: in its thread, its asyncio tasks and the threads it starts.

Owns the variable and its inheritance by other threads. The engine only sets it; the capture of printed lines
reads it.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial
from typing import Any, NamedTuple, ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")


class CurrentAttempt(NamedTuple):
    """An attempt: the task's record name, its number, and the run that it belongs to."""

    task: str
    attempt: int
    run_id: str


# None outside of tasks.
CURRENT: ContextVar[CurrentAttempt | None] = ContextVar("pyoco_current_attempt", default=None)

_is_installed = False


def install_thread_inheritance() -> None:
    """For processes that execute runs. Callable twice.

    A thread belongs to the task that started it, and work in a pool to the task that submitted it: a pool and
    its threads often outlive the task that first used them.
    """
    global _is_installed
    if not _is_installed:
        _is_installed = True
        cast(Any, threading.Thread).start = _inheriting_start(threading.Thread.start)
        cast(Any, ThreadPoolExecutor).submit = _inheriting_submit(ThreadPoolExecutor.submit)


def _inheriting_start(start: Callable[[threading.Thread], None]) -> Callable[[threading.Thread], None]:
    def inheriting_start(self: threading.Thread) -> None:
        current = CURRENT.get()
        if current is not None:
            # On the object, so that it precedes the `run` of any subclass.
            vars(self)["run"] = partial(_run_for, current, self, self.run)
        start(self)

    return inheriting_start


def _inheriting_submit(submit: Callable[..., Future[object]]) -> Callable[..., Future[object]]:
    def inheriting_submit(
        self: ThreadPoolExecutor, fn: Callable[..., object], /, *args: object, **kwargs: object
    ) -> Future[object]:
        # Outside of tasks too: the pool's thread may have been started by one.
        return submit(self, partial(_call_for, CURRENT.get(), fn), *args, **kwargs)

    return inheriting_submit


def _run_for(attempt: CurrentAttempt, thread: threading.Thread, run: Callable[[], None]) -> None:
    vars(thread).pop("run", None)  # a thread that refers to itself would live until a garbage collection
    CURRENT.set(attempt)
    run()


def _call_for(
    attempt: CurrentAttempt | None, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
) -> T:
    before = CURRENT.set(attempt)
    try:
        return work(*args, **kwargs)
    finally:
        CURRENT.reset(before)
