"""The log of one run in memory: commands are decided by the core, and their events are folded."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

import msgspec
from msgspec.structs import replace

from pyoco_server.engine import StopRun
from pyoco_server.lifecycle.commands import Command, SubmitRun, SucceedTask
from pyoco_server.lifecycle.decide import Refused, decide_and_fold
from pyoco_server.lifecycle.events import Event, RunSubmitted
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import OutputKept
from pyoco_server.testing.when import EventTest

_encode = msgspec.json.Encoder().encode
_decode_events = msgspec.json.Decoder(list[Event]).decode


class WorkerLost(StopRun):
    """The test lets the worker be lost before an event is recorded."""


class Journal:
    """`on_event` is called after each event, when its commit is complete."""

    def __init__(
        self,
        submission: RunSubmitted,
        now: Callable[[], float],
        on_event: Callable[[Event], None],
        lose_worker_before: EventTest | None,
    ) -> None:
        self._now = now
        self._on_event = on_event
        self._lose_worker_before = lose_worker_before
        self.is_worker_lost = False
        self._large: dict[str, bytes] = {}  # results that a worker stores outside of the log, by task
        self._events: list[Event] = []
        decided = decide_and_fold(None, [SubmitRun(submission=submission)], self._now())
        assert not isinstance(decided, Refused)
        assert decided[1] is not None
        self.run: Run = decided[1]
        self._events += decided[0]

    def announce_submission(self) -> None:
        self._on_event(self._events[0])

    def commit(self, *commands: Command) -> Refused | None:
        """Returns the refusal, if they were refused. Raises WorkerLost, once."""
        decided = decide_and_fold(self.run, commands, self._now())
        if isinstance(decided, Refused):
            return decided
        events, run = decided
        self._check_worker(events)
        assert run is not None
        self.run = run
        self._events += events
        for event in events:
            self._on_event(event)
        return None

    def put_aside(self, command: SucceedTask, values: bytes) -> SucceedTask:
        """A large result: the log has a reference to it."""
        self._large[command.task] = values
        name = f"{self.run.run_id}/{command.fence}/{command.attempt}/{command.task}"
        digest = sha256(values).hexdigest()
        return replace(command, output={"object": name, "bytes": len(values), "sha256": digest})

    def take_loss(self) -> bool:
        """True once: the worker was lost, and that is not recorded yet."""
        was_lost, self.is_worker_lost = self.is_worker_lost, False
        return was_lost

    def recorded(self) -> bytes:
        """The results of earlier claims, as JSON: `{task: [result, types]}`."""
        found: dict[str, tuple[object, object]] = {}
        for name, record in self.run.tasks.items():
            if record.kept is OutputKept.STORED:
                found[name] = (record.output, record.types)
            elif record.kept is OutputKept.REFERENCED:
                found[name] = (msgspec.Raw(self._large[name]), record.types)
        return _encode(found)

    def events(self) -> tuple[Event, ...]:
        """As they are read from a log: the values in them are decoded JSON."""
        return tuple(_decode_events(_encode(self._events)))

    def large_results(self) -> dict[str, object]:
        return {name: msgspec.json.decode(data) for name, data in self._large.items()}

    def _check_worker(self, events: tuple[Event, ...]) -> None:
        lose = self._lose_worker_before
        if lose is not None and any(lose(event) for event in events):
            self._lose_worker_before, self.is_worker_lost = None, True
            raise WorkerLost("the worker is lost")
