"""Steps of background work: hold the error of a step, log it, and count failures by name (`/metrics`)."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

log = logging.getLogger(__name__)

_failures: Counter[str] = Counter()


def failures_by_loop() -> Mapping[str, int]:
    """How often each loop, task or step of this process has failed, by name."""
    return dict(_failures)


def count_failure(name: str) -> None:
    """For a part of a loop's body that fails while the rest of the body continues."""
    _failures[name] += 1


@dataclass(slots=True)
class Contained:
    """`error`: what the step raised, to be read after it."""

    error: Exception | None = None


@contextmanager
def capture_error() -> Iterator[Contained]:
    """Hold the error of a step. The caller must log it or report it."""
    contained = Contained()
    try:
        yield contained
    except Exception as error:  # supervision: the one place that survives any defect of a step
        contained.error = error


@contextmanager
def contain(name: str, message: str = "a background step failed", **fields: object) -> Iterator[Contained]:
    """For a step whose defect must not end what follows: an error is logged and counted by `name`."""
    with capture_error() as contained:
        yield contained
    if contained.error is not None:
        count_failure(name)
        log.error(message, exc_info=contained.error, extra={"loop": name} | fields)
