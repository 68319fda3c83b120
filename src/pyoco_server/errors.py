"""Every error that may reach a caller, with its id and one sentence that says what to do.

    PyocoError
    ├── Invalid             the request is not valid                            ERR-PYOCO-0002
    │   └── ConfigError     a setting is wrong; names the variable              ERR-PYOCO-0002
    ├── TooLarge            the request exceeds a named limit
    ├── NotFound            the requested resource does not exist               ERR-PYOCO-0005
    ├── Conflict            its state does not allow this
    │   ├── IdempotencyConflict   the key was used for another request
    │   └── RevisionConflict      it has changed since it was read
    ├── Unauthenticated     the caller is not authenticated                     ERR-PYOCO-0014
    ├── Forbidden           the caller has no permission                        ERR-PYOCO-0015
    ├── Limited             too much at once; try again after retry_after_sec
    ├── Unavailable         a dependency is unavailable; try again later        ERR-PYOCO-0003
    └── Internal            a defect; the cause is in the log, not in the answer

The ids on the right are defaults; a raise site may pass another id.
Owns the tree. Each HTTP face maps errors to status codes and bodies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, NotRequired, Self, TypedDict, Unpack


class ErrorDetail(TypedDict):
    """Where a request is not valid, what is wrong there, and its kind."""

    loc: list[str | int]
    msg: str
    type: str
    nodeId: NotRequired[str]
    line: NotRequired[int]
    column: NotRequired[int]


class ErrorIds(TypedDict, total=False):
    """What every error takes besides its message."""

    err_id: str | None
    msg_id: str | None
    details: Sequence[Mapping[str, object]] | dict[str, object] | None


class PyocoError(Exception):
    """The root of all errors that this package raises on purpose."""

    default_err_id: ClassVar[str | None] = None

    def __init__(
        self,
        message: str,
        *,
        err_id: str | None = None,
        msg_id: str | None = None,
        details: Sequence[Mapping[str, object]] | dict[str, object] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        # An empty id: the default id of the class does not fit this case.
        self.err_id = (self.default_err_id if err_id is None else err_id) or None
        self.msg_id = msg_id or message_id_of(self.err_id)
        self.details = details

    @property
    def public_message(self) -> str:
        """The message for clients. A subclass may hide details that are for operators."""
        return self.message


class Invalid(PyocoError):
    """The request is not valid; `details` says where."""

    default_err_id = "ERR-PYOCO-0002"

    @classmethod
    def at(
        cls, loc: Sequence[str | int], message: str, kind: str = "value_error", *, err_id: str | None = None
    ) -> Self:
        """One problem, at one place: query, header, path or body, and the name in it; or a member alone."""
        return cls(message, err_id=err_id, details=[problem_at(loc, message, kind)])


class ConfigError(Invalid):
    """A setting is wrong. The message names the variable and what to write instead."""


class TooLarge(PyocoError):
    """The request exceeds a named limit."""


class NotFound(PyocoError):
    """The resource does not exist, or does not belong to the caller."""

    default_err_id = "ERR-PYOCO-0005"


class Conflict(PyocoError):
    """The resource exists, but its state does not allow this."""


class IdempotencyConflict(Conflict):
    """An idempotency key was used for another request before; `details["differs"]` says where."""


class RevisionConflict(Conflict):
    """It has changed since the caller read it; `details["revision"]` is the present one."""


class Unauthenticated(PyocoError):
    """The caller is not authenticated."""

    default_err_id = "ERR-PYOCO-0014"


class Forbidden(PyocoError):
    """The caller has no permission."""

    default_err_id = "ERR-PYOCO-0015"


class Limited(PyocoError):
    """Too much at once: try again after `retry_after_sec`."""

    # The default keeps the error picklable: a slot's errors cross a process boundary.
    def __init__(self, message: str, *, retry_after_sec: float = 1.0, **ids: Unpack[ErrorIds]) -> None:
        super().__init__(message, **ids)
        self.retry_after_sec = retry_after_sec


class Unavailable(PyocoError):
    """A dependency is unavailable. Every such answer has `retry_after_sec`."""

    default_err_id = "ERR-PYOCO-0003"

    def __init__(self, message: str, *, retry_after_sec: float = 1.0, **ids: Unpack[ErrorIds]) -> None:
        super().__init__(message, **ids)
        self.retry_after_sec = retry_after_sec


class Internal(PyocoError):
    """A defect. The cause goes to the log, never to the caller."""


def problem_at(loc: Sequence[str | int], message: str, kind: str = "value_error") -> ErrorDetail:
    """One entry of the `details` of Invalid."""
    return {"loc": [*loc], "msg": message, "type": kind}


def message_id_of(err_id: str | None) -> str | None:
    """The specification numbers messages like errors: ERR-PYOCO-0002 has MSG-PYOCO-0002."""
    return None if err_id is None else err_id.replace("ERR-", "MSG-", 1)
