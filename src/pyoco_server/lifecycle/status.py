"""The states of runs and tasks, as closed sets. Transitions are elsewhere."""

from enum import StrEnum


class RunStatus(StrEnum):
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    CANCELLING = "CANCELLING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    @property
    def is_terminal(self) -> bool:
        return self in TERMINAL


TERMINAL = frozenset({RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED})


class Driver(StrEnum):
    """What moves a run forward: workers, or a client over HTTP. Fixed at submission."""

    WORKER = "worker"
    CLIENT = "client"


class TaskStatus(StrEnum):
    PENDING = "PENDING"
    READY = "READY"  # of a client-driven run: a client may take it
    RUNNING = "RUNNING"
    WAITING = "WAITING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    @property
    def is_finished(self) -> bool:
        return self in FINISHED


# A wait with this key prefix ends by time alone and needs no answer. Flows write it without an import.
SLEEP_KEY_PREFIX = "sleep:"

FINISHED = frozenset({TaskStatus.SUCCEEDED, TaskStatus.FAILED, TaskStatus.CANCELLED})


class LossCause(StrEnum):
    """Why a claim ended before the run. The first two count against the limits of the run."""

    WORKER_LOST = "worker_lost"
    SLOT_CRASHED = "slot_crashed"
    HANDED_BACK = "handed_back"


class OutputKept(StrEnum):
    """How a task's result is stored. Only STORED and REFERENCED results are checkpoints."""

    STORED = "stored"
    REFERENCED = "referenced"
    APPROXIMATE = "approximate"  # shown as JSON, but the value cannot be restored from it
    TOO_LARGE = "too_large"
    UNSERIALISABLE = "unserialisable"
