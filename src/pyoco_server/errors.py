"""Every error that may reach a caller, with its id and one sentence that says what to do.

    PyocoError
    ├── Invalid             what was sent cannot be accepted as it is           ERR-PYOCO-0002
    │   └── ConfigError     a setting is wrong; names the variable              ERR-PYOCO-0002
    ├── TooLarge            what was sent is over a named limit
    ├── NotFound            what was asked for is not there                     ERR-PYOCO-0005
    ├── Conflict            it is there, in a state that does not allow this
    │   └── IdempotencyConflict   its key was used for another request
    ├── Unauthenticated     we do not know who is asking                        ERR-PYOCO-0014
    ├── Forbidden           we know, and the answer is no                       ERR-PYOCO-0015
    ├── Limited             too much at once; come back after retry_after_sec
    ├── Unavailable         something we need is away; come back later          ERR-PYOCO-0003
    └── Internal            our mistake; the cause is in the log, not in the answer

The ids on the right are defaults; a raise site that knows better passes its own.
Owns the tree. Which status code and body an error becomes is decided by each HTTP face.
"""

from __future__ import annotations

from typing import Any, ClassVar


class PyocoError(Exception):
    """The root: whoever catches this has caught everything we raise on purpose."""

    default_err_id: ClassVar[str | None] = None

    def __init__(
        self,
        message: str,
        *,
        err_id: str | None = None,
        msg_id: str | None = None,
        details: list[Any] | dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        # An empty id: the kind has one by default, but it does not fit this case.
        self.err_id = (self.default_err_id if err_id is None else err_id) or None
        self.msg_id = msg_id or message_id_of(self.err_id)
        self.details = details

    @property
    def public_message(self) -> str:
        """What a client may read. The message itself, unless that is for the log of an operator."""
        return self.message


class Invalid(PyocoError):
    """What was sent cannot be accepted as it is; `details` says where."""

    default_err_id = "ERR-PYOCO-0002"


class ConfigError(Invalid):
    """A setting is wrong. The message names the variable and what to write instead."""


class TooLarge(PyocoError):
    """What was sent is over a named limit."""


class NotFound(PyocoError):
    """What was asked for is not there, or is not the caller's."""

    default_err_id = "ERR-PYOCO-0005"


class Conflict(PyocoError):
    """It is there, but in a state that does not allow this."""


class IdempotencyConflict(Conflict):
    """An idempotency key came with another request than the first time; `details["differs"]` says where."""


class Unauthenticated(PyocoError):
    """We do not know who is asking."""

    default_err_id = "ERR-PYOCO-0014"


class Forbidden(PyocoError):
    """We know who is asking, and the answer is no."""

    default_err_id = "ERR-PYOCO-0015"


class Limited(PyocoError):
    """Too much at once: come back after `retry_after_sec`."""

    # The default keeps the error picklable: a slot's errors cross a process boundary.
    def __init__(self, message: str, *, retry_after_sec: float = 1.0, **ids: Any) -> None:
        super().__init__(message, **ids)
        self.retry_after_sec = retry_after_sec


class Unavailable(PyocoError):
    """Something we need is away. Every such answer says when to come back: in `retry_after_sec`."""

    default_err_id = "ERR-PYOCO-0003"

    def __init__(self, message: str, *, retry_after_sec: float = 1.0, **ids: Any) -> None:
        super().__init__(message, **ids)
        self.retry_after_sec = retry_after_sec


class Internal(PyocoError):
    """Our mistake. The cause goes to the log, never to the caller."""


def message_id_of(err_id: str | None) -> str | None:
    """The specification numbers messages like errors: ERR-PYOCO-0002 speaks as MSG-PYOCO-0002."""
    return None if err_id is None else err_id.replace("ERR-", "MSG-", 1)
