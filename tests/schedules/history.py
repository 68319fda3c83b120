"""A schedule in a world of values: time passes, runs end, callers change it, and gateways crash."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from pyoco_server.schedules.decide import (
    BeginPlanned,
    CancelRunning,
    QueuePlanned,
    Running,
    SkipPlanned,
    next_step,
)
from pyoco_server.schedules.record import (
    CatchUp,
    Occurrences,
    Outcome,
    Overlap,
    Policies,
    Schedule,
    ScheduleStatus,
)
from pyoco_server.schedules.timing import ScheduleKind, Timing, next_instant
from pyoco_server.schedules.transitions import advance, edit, mark, pause, queue, resume, skip

ID = "7b0f6a52-7f0e-4f6e-9d49-0c6f7a1b5d11"


def every(seconds: float, start_at: float, **members: Any) -> Timing:
    return Timing(kind=ScheduleKind.INTERVAL, interval_seconds=seconds, start_at=start_at, **members)


def a_schedule(timing: Timing, next_at: float | None, **changes: Any) -> Schedule:
    members: dict[str, Any] = {
        "schedule_id": ID,
        "flow_name": "nightly",
        "tag": "default",
        "timing": timing,
        "workflow_yaml_sha256": None,
        "workflow_yaml_bytes": None,
        "tenant_id": None,
        "api_key_id": None,
        "created_at": 0.0,
        "updated_at": 0.0,
        "next_at": next_at,
    }
    return Schedule(**(members | changes))


class World:
    """`running`: by run id, whether its cancel was requested."""

    def __init__(self, schedule: Schedule) -> None:
        self.now = 99.0
        self.schedule = schedule
        self.history: list[Occurrences] = []
        self.running: dict[str, bool] = {}
        self.begun: list[float] = []
        self._timings = [(99.0, schedule.timing)]

    def do(self, what: str, *more: Any) -> None:
        getattr(self, "_" + what.replace(" ", "_"))(*more)

    def finish(self) -> None:
        """All runs end, and everything that is due is handled."""
        for _ in range(50):
            self._end_runs(99)
            self._handle()

    def planned_until_now(self) -> set[float]:
        """The occurrences of each timing while it was valid."""
        found: set[float] = set()
        ends = [begin for begin, _ in self._timings[1:]] + [self.now]
        for (begin, timing), end in zip(self._timings, ends, strict=True):
            instant: float | None = begin
            while (instant := next_instant(timing, instant or 0.0)) is not None and instant <= end:
                found.add(instant)
        return found

    def still_to_come(self) -> set[float]:
        """Those that were planned before now and start later, because of their jitter."""
        instant, found = self.schedule.next_at, set()
        while instant is not None and instant <= self.now:
            found.add(instant)
            instant = next_instant(self.schedule.timing, instant)
        return found

    def timing_at(self, instant: float) -> Timing:
        return [timing for begin, timing in self._timings if begin < instant][-1]

    def _wait(self, seconds: float) -> None:
        self.now += seconds
        self._handle()

    def _end_runs(self, number: int) -> None:
        for run_id in list(self.running)[:number]:
            del self.running[run_id]

    def _pause(self) -> None:
        if self.schedule.status is ScheduleStatus.ACTIVE:
            self._store(pause(self.schedule, now=self.now))

    def _resume(self) -> None:
        if self.schedule.status is ScheduleStatus.PAUSED:
            self._store(resume(self.schedule, now=self.now))

    def _crash(self) -> None:
        """A gateway stopped after it had reserved a start: another one continues, perhaps much later."""
        step = next_step(self.schedule, self.now, self._running())
        if isinstance(step, BeginPlanned):
            self._store(mark(self.schedule, step.planned_at, step.origin, now=self.now))
            self._begin(step)

    def _rename(self) -> None:
        self._store(edit(self.schedule, replace(self.schedule, name="other"), now=self.now))

    def _retime(self) -> None:
        if self.schedule.status is ScheduleStatus.COMPLETED:
            return
        timing = every(13.0, 3.0)
        self._timings.append((self.now, timing))
        self._store(edit(self.schedule, replace(self.schedule, timing=timing), now=self.now))

    def _policies(self, overlap: Overlap, catch_up: CatchUp) -> None:
        changed = Policies(overlap=overlap, catch_up=catch_up, catch_up_within_seconds=100.0)
        self._store(edit(self.schedule, replace(self.schedule, policies=changed), now=self.now))

    def _handle(self) -> None:
        for _ in range(500):
            if (step := next_step(self.schedule, self.now, self._running())) is None:
                return
            self._perform(step)
        raise AssertionError("it does not end")

    def _perform(self, step: BeginPlanned | QueuePlanned | SkipPlanned | CancelRunning) -> None:
        match step:
            case BeginPlanned():
                self._store(mark(self.schedule, step.planned_at, step.origin, now=self.now))
                self._begin(step)
            case QueuePlanned():
                self._store(queue(self.schedule, step.planned_at, now=self.now))
            case SkipPlanned():
                self._store(skip(self.schedule, step, now=self.now))
            case CancelRunning():
                self.running |= dict.fromkeys(step.run_ids, True)

    def _begin(self, step: BeginPlanned) -> None:
        assert self.schedule.paused_at is None, "a paused schedule starts nothing"
        overlap = self.schedule.policies.overlap
        assert overlap is Overlap.ALLOW or not self.running, "two at once"
        run_id = f"run of {step.planned_at}"
        assert run_id not in self.running
        self.running[run_id] = False
        self.begun.append(step.planned_at)
        self._store(advance(self.schedule, now=self.now, run_id=run_id))

    def _running(self) -> Running:
        return Running(len(self.running), [one for one, asked in self.running.items() if not asked])

    def _store(self, schedule: Schedule) -> None:
        self.history += [entry for entry in schedule.unwritten if entry.number > len(self.history)]
        self.schedule = replace(schedule)


def occurrences_of(entry: Occurrences, world: World) -> list[float]:
    """The planned instants that an entry is about."""
    if entry.outcome is Outcome.STARTED:
        assert entry.first_at == entry.last_at
    found = [entry.first_at]
    while found[-1] < entry.last_at:
        following = next_instant(world.timing_at(entry.last_at), found[-1])
        assert following is not None
        found.append(following)
    assert entry.count == len(found)
    return found
