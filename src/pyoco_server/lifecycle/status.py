"""The words for where a run and a task stand. Closed sets; owns no transition."""

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
    """Who moves a run on: our workers, or whoever asks over HTTP. Fixed when it begins."""

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
    """Why a claim ended without an end of the run. Only two of them count against it."""

    WORKER_LOST = "worker_lost"
    SLOT_CRASHED = "slot_crashed"
    HANDED_BACK = "handed_back"


class OutputKept(StrEnum):
    """What became of a task's result: a checkpoint can only be taken from a stored one."""

    STORED = "stored"
    REFERENCED = "referenced"
    APPROXIMATE = "approximate"  # shown as JSON, but the value cannot be restored from it
    TOO_LARGE = "too_large"
    UNSERIALISABLE = "unserialisable"
