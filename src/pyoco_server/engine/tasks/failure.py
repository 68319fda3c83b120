"""Turn an exception of user code into text of bounded size. Owns the limits; keeps no exception alive."""

import asyncio
import traceback
from dataclasses import dataclass

from pyoco_server.engine.cancelled import Cancelled

ERROR_BYTES_MAX = 8 * 1024
TRACEBACK_BYTES_MAX = 32 * 1024
_CUT_MARK = "\n… cut …\n"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed, as text: exceptions would keep frames, and with them user data, alive."""

    error: str
    traceback: str = ""
    kind: str = ""  # the class of the exception; empty when there was none, as for a timeout
    origin: tuple[str, int, str] | None = None  # file, line and function it was raised in


def describe(exc: BaseException) -> Failure:
    """Never raises: an exception whose own `__str__` is broken is still described."""
    return Failure(
        error=cut(_message(exc), ERROR_BYTES_MAX),
        traceback=cut(_trace(exc), TRACEBACK_BYTES_MAX),
        kind=type(exc).__name__,
        origin=_origin(exc),
    )


def cut(text: str, bytes_max: int) -> str:
    """Keep both ends: a traceback begins with where and ends with what. The result is always valid UTF-8."""
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
    try:
        return str(exc)
    except BaseException:  # __str__ is user code too
        return f"{type(exc).__name__} (its text cannot be shown)"


def _trace(exc: BaseException) -> str:
    # The first frame is the engine's own call; authors want to see theirs.
    frames = exc.__traceback__.tb_next if exc.__traceback__ else None
    try:
        return "".join(traceback.format_exception(type(exc), exc, frames))
    except BaseException:  # formatting touches the user's objects
        return type(exc).__name__


def _origin(exc: BaseException) -> tuple[str, int, str] | None:
    frame = exc.__traceback__
    if frame is None:
        return None
    while frame.tb_next is not None:
        frame = frame.tb_next
    code = frame.tb_frame.f_code
    return code.co_filename, frame.tb_lineno, code.co_name
