"""What comes of a command: events, or a reason why not. Values, and a draft of events under way."""

from enum import StrEnum

import msgspec

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
    TOO_MANY_TAGS = "TOO_MANY_TAGS"


class Refused(msgspec.Struct, frozen=True):
    reason: Reason


Events = tuple[e.Event, ...]
Decision = Events | Refused


class Draft:
    """Events being decided one after the other, each on what those before it made of the run."""

    def __init__(self, run: Run, at: float) -> None:
        self._folding = Folding(run)
        self._events: list[e.Event] = []
        self.at = at

    def say(self, *events: e.Event) -> None:
        self._folding.add(events)
        self._events += events

    @property
    def run(self) -> Run:
        """As it is now. Its tasks go on changing with what is said next."""
        run = self._folding.run
        assert run is not None, "a run does not vanish"
        return run

    @property
    def events(self) -> Events:
        return tuple(self._events)
