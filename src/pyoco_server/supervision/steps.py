"""Steps of background work: hold the error of a step, log it, and count failures by name (`/metrics`)."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from types import TracebackType
from typing import Self

log = logging.getLogger(__name__)

Fields = dict[str, object]

_failures: Counter[str] = Counter()


def failures_by_loop() -> Mapping[str, int]:
    """How often each loop, task or step of this process has failed, by name."""
    return dict(_failures)


def count_failure(name: str) -> None:
    """For a part of a loop's body that fails while the rest of the body continues."""
    _failures[name] += 1


class Contained:
    """A step whose error ends here. `error`: what the step raised, to be read after it.

    A class, because a run has eight of these: two generators of `contextlib` cost six times as much.
    """

    __slots__ = ("_fields", "_message", "_name", "error")

    def __init__(self, name: str | None = None, message: str = "", fields: Fields | None = None) -> None:
        """`name`: the error is logged and counted by it; None: the caller does that."""
        self._name = name
        self._message = message
        self._fields = fields
        self.error: Exception | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        self.error = error  # supervision: the one place that survives any defect of a step
        if self._name is not None:
            count_failure(self._name)
            log.error(self._message, exc_info=error, extra={"loop": self._name} | (self._fields or {}))
        return True


def capture_error() -> Contained:
    """Hold the error of a step. The caller must log it or report it."""
    return Contained()


def contain(name: str, message: str = "a background step failed", **fields: object) -> Contained:
    """For a step whose defect must not end what follows: an error is logged and counted by `name`."""
    return Contained(name, message, fields)
