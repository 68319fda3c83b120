"""Which attempt at which task runs here: known in its thread, its asyncio tasks and the threads it starts.

Owns the variable and its way into other threads. Who wants to know (to say where a printed line comes from)
asks `CURRENT`; nothing in the engine does.
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


Whereabouts = CurrentAttempt | None

# None outside of tasks.
CURRENT: ContextVar[Whereabouts] = ContextVar("pyoco_current_attempt", default=None)

_is_installed = False


def install_thread_inheritance() -> None:
    """From now on, threads belong to the task that starts them. For the engine's processes; callable twice.

    A thread belongs to the task that started it, work in a pool to the task that submitted it: a pool and its
    threads often outlive the task that first used them.
    """
    global _is_installed
    if not _is_installed:
        _is_installed = True
        cast(Any, threading.Thread).start = _inheriting_start(threading.Thread.start)
        cast(Any, ThreadPoolExecutor).submit = _inheriting_submit(ThreadPoolExecutor.submit)


def _inheriting_start(start: Callable[[threading.Thread], None]) -> Callable[[threading.Thread], None]:
    def inheriting_start(self: threading.Thread) -> None:
        here = CURRENT.get()
        if here is not None:
            # On the object, so that it stands before the `run` of any subclass.
            vars(self)["run"] = partial(_run_for, here, self, self.run)
        start(self)

    return inheriting_start


def _inheriting_submit(submit: Callable[..., Future[Any]]) -> Callable[..., Future[Any]]:
    def inheriting_submit(
        self: ThreadPoolExecutor, fn: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Future[Any]:
        # Outside of tasks too: the pool's thread may have been started by one.
        return submit(self, partial(_call_for, CURRENT.get(), fn), *args, **kwargs)

    return inheriting_submit


def _run_for(here: Whereabouts, thread: threading.Thread, run: Callable[[], None]) -> None:
    vars(thread).pop("run", None)  # a thread that refers to itself would live until the next collection
    CURRENT.set(here)
    run()


def _call_for(here: Whereabouts, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    before = CURRENT.set(here)
    try:
        return work(*args, **kwargs)
    finally:
        CURRENT.reset(before)
