"""The outcome of a command: events, or the reason of a refusal. And a draft for several events."""

from enum import StrEnum

import msgspec

from pyoco_server.json_schema.check import Mismatch
from pyoco_server.lifecycle import events as e
from pyoco_server.lifecycle.reduce import Folding
from pyoco_server.lifecycle.run import Run


class Reason(StrEnum):
    UNKNOWN = "UNKNOWN"
    EXISTS = "EXISTS"
    GONE = "GONE"
    TERMINAL = "TERMINAL"
    NOT_TERMINAL = "NOT_TERMINAL"
    CANCEL_REQUESTED = "CANCEL_REQUESTED"
    NO_CANCEL_REQUESTED = "NO_CANCEL_REQUESTED"
    CLAIMED = "CLAIMED"
    PARKED = "PARKED"
    FENCED = "FENCED"
    OTHER_JOB = "OTHER_JOB"
    NOT_WAITING = "NOT_WAITING"
    WAIT_KEY = "WAIT_KEY"
    WRONG_DRIVER = "WRONG_DRIVER"
    UNKNOWN_TASK = "UNKNOWN_TASK"
    TASK_STATUS = "TASK_STATUS"
    ATTEMPT = "ATTEMPT"
    ANSWER = "ANSWER"
    TOO_MANY_TAGS = "TOO_MANY_TAGS"
    EXPIRED = "EXPIRED"


class Refused(msgspec.Struct, frozen=True):
    """`problems`: of an answer that does not have the required form."""

    reason: Reason
    problems: tuple[Mismatch, ...] = ()


Events = tuple[e.Event, ...]
Decision = Events | Refused


class Draft:
    """Events that are decided one after the other, each on the state after those before it."""

    def __init__(self, run: Run, at: float) -> None:
        self._folding = Folding(run)
        self._events: list[e.Event] = []
        self.at = at

    def add(self, *events: e.Event) -> None:
        self._folding.add(events)
        self._events += events

    @property
    def run(self) -> Run:
        """The current state. Its tasks change with the next event that is added."""
        run = self._folding.run
        assert run is not None, "a run does not vanish"
        return run

    @property
    def events(self) -> Events:
        return tuple(self._events)
