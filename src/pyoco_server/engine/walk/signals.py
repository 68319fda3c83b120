"""What the scheduler reports to the walk through a flow. Closed set of values; no behaviour."""

from dataclasses import dataclass
from typing import Any

from pyoco_server.engine.tasks.failure import Failure
from pyoco_server.engine.walk.plan import TaskSpec


@dataclass(frozen=True, slots=True)
class AttemptSucceeded:
    """The task has returned, and the listener was called."""

    spec: TaskSpec
    output: Any


@dataclass(frozen=True, slots=True)
class Released:
    """The listener has acknowledged the success: successors may start."""

    spec: TaskSpec


@dataclass(frozen=True, slots=True)
class AttemptFailed:
    """The task has failed and will not be retried."""

    spec: TaskSpec
    failure: Failure


Signal = AttemptSucceeded | Released | AttemptFailed
