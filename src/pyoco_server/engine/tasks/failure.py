"""Exceptions of user code as values: caught, and turned into text of bounded size. Owns the limits."""

import asyncio
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
E = TypeVar("E")

ERROR_BYTES_MAX = 8 * 1024
TRACEBACK_BYTES_MAX = 32 * 1024
_CUT_MARK = "\n… cut …\n"


class Cancelled(BaseException):
    """Raised by `ctx.raise_if_cancelled()`; tasks may raise it themselves.

    Not an `Exception`, so that an `except Exception` in a task does not treat a cancel as a failure.
    """


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed, as text: an exception would keep frames, and with them user data, alive."""

    error: str
    traceback: str = ""
    kind: str = ""  # the class of the exception; empty without one, as for a timeout
    origin: tuple[str, int, str] | None = None  # where it was raised: file, line and function


def try_call(
    call: Callable[..., T],
    /,
    *args: object,
    on_error: Callable[[BaseException], E],
    also: tuple[type[BaseException], ...] = (),
) -> T | E:
    """The result of code that may call user code, or what `on_error` makes of its error.

    Caught are every `Exception`, and `also`. The exception itself must not get into a variable of the caller:
    it would keep frames, and with them user data, alive.
    """
    try:
        return call(*args)
    except also as exc:
        return on_error(exc)
    except Exception as exc:  # user code: resolvers, properties and operators may raise anything
        return on_error(exc)


def describe(exc: BaseException) -> Failure:
    """Never raises, also if the exception's own `__str__` does. Leaves out the frame that caught it."""
    return Failure(
        error=cut(_message(exc), ERROR_BYTES_MAX),
        traceback=cut(_trace(exc), TRACEBACK_BYTES_MAX),
        kind=type(exc).__name__,
        origin=_origin(exc),
    )


def cut(text: str, bytes_max: int) -> str:
    """Keep both ends of a long text. The result is always valid UTF-8."""
    data = text.encode("utf-8", "backslashreplace")
    if len(data) <= bytes_max:
        return data.decode()
    room = bytes_max - len(_CUT_MARK.encode())
    head, tail = data[: room // 2], data[len(data) - room // 2 :]
    return head.decode("utf-8", "ignore") + _CUT_MARK + tail.decode("utf-8", "ignore")


def _message(exc: BaseException) -> str:
    match exc:
        case SystemExit():
            return f"The task called sys.exit({_text(exc)}); return a value or raise an exception instead"
        case KeyboardInterrupt() | GeneratorExit():
            return f"The task raised {type(exc).__name__}, which ends only the task, not the worker"
        case Cancelled():
            return "The task raised Cancelled, but no cancel had been asked for"
        case asyncio.CancelledError():
            return "The task's asyncio task was cancelled by its own code"
        case _:
            return _text(exc) or type(exc).__name__


def _text(exc: BaseException) -> str:
    return _show(lambda: str(exc), f"{type(exc).__name__} (its text cannot be shown)")


def _trace(exc: BaseException) -> str:
    # Without the first frame, which is the engine's call: authors need their own.
    frames = exc.__traceback__.tb_next if exc.__traceback__ else None
    return _show(lambda: "".join(traceback.format_exception(type(exc), exc, frames)), type(exc).__name__)


def _show(make: Callable[[], str], otherwise: str) -> str:
    """Formatting an exception calls its methods, which are user code."""
    return try_call(make, on_error=lambda _: otherwise, also=(BaseException,))


def _origin(exc: BaseException) -> tuple[str, int, str] | None:
    frame = exc.__traceback__
    if frame is None:
        return None
    while frame.tb_next is not None:
        frame = frame.tb_next
    code = frame.tb_frame.f_code
    return code.co_filename, frame.tb_lineno, code.co_name
