"""How a run ended, as a value. Owns the closed set of endings; does not decide which one applies."""

from dataclasses import dataclass
from enum import StrEnum

from pyoco.core.context import Context

from pyoco_server.engine.tasks.failure import Failure


class OutcomeStatus(StrEnum):
    """The endings of a run inside the engine."""

    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    ABANDONED = "ABANDONED"  # the listener stopped it: another worker holds the run
    PARKED = "PARKED"  # only waits are left: it is executed again with their answers


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """What `Engine.run` returns. `results` has the results of all tasks that succeeded, with any status."""

    status: OutcomeStatus
    results: dict[str, object]
    context: Context
    error: str | None = None
    failed_task: str | None = None
    traceback: str | None = None
    cause: Failure | None = None  # FAILED: the exception, if there was one
    left_behind: int = 0  # threads that are still in user code
    waiting: tuple[str, ...] = ()  # PARKED: the record names of the open waits


@dataclass(frozen=True, slots=True)
class Ending:
    """The part of an outcome that is known before the run has wound down."""

    status: OutcomeStatus
    error: str | None = None
    failed_task: str | None = None
    traceback: str | None = None
    cause: Failure | None = None


class Halt(Exception):
    """Unwinds a walk through a flow, at any depth of loops. Never leaves the engine."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending.status)
        self.ending = ending
