"""The stored form of a schedule, of its policies, and of what happened to its occurrences.

An occurrence is a planned instant. Each of them gets one run, or one recorded reason why it has none. What
was decided is in the record itself (`unwritten`) until it is in the history, so neither can be lost alone.
"""

from __future__ import annotations

import uuid
from enum import StrEnum

import msgspec

from pyoco_server.schedules.timing import Timing


class ScheduleStatus(StrEnum):
    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    COMPLETED = "COMPLETED"


class Overlap(StrEnum):
    """What happens to an occurrence that is due while a run of the schedule has not ended."""

    ALLOW = "allow"
    SKIP = "skip"
    QUEUE_ONE = "queue_one"
    CANCEL_RUNNING = "cancel_running"


class CatchUp(StrEnum):
    """Which occurrences are started late, after an outage."""

    NONE = "none"
    LAST = "last"
    ALL_WITHIN = "all_within"


class Policies(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    overlap: Overlap = Overlap.ALLOW
    catch_up: CatchUp = CatchUp.LAST
    catch_up_within_seconds: float | None = None


class StartOrigin(StrEnum):
    """Why the run of an occurrence is started: its time has come, it waited, or a backfill asked for it."""

    DUE = "due"
    QUEUED = "queued"
    BACKFILL = "backfill"


class Outcome(StrEnum):
    STARTED = "started"
    SKIPPED = "skipped"


class SkipReason(StrEnum):
    MISSED = "missed"  # in an outage, and not to be started late
    OVERLAP = "overlap"  # a run of the schedule had not ended
    QUEUE_FULL = "queue_full"  # another occurrence waited already
    REPLACED = "replaced"  # a later occurrence took its place
    PAUSED = "paused"
    EDITED = "edited"  # the schedule was changed before it was started
    FAILED = "failed"  # what its run starts with is missing


class Occurrences(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What happened to one occurrence, or to several that follow each other and were skipped together.

    `number`: of this entry in the history of the schedule. `count`: None if there are too many to count.
    """

    number: int
    outcome: Outcome
    first_at: float
    last_at: float
    recorded_at: float
    count: int | None = 1
    origin: StartOrigin = StartOrigin.DUE
    reason: SkipReason | None = None
    run_id: str | None = None


class Backfill(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Runs for the occurrences from `first_at` to `last_at`, in their order; `next_at`: the next of them.

    `existing`: occurrences that had a run already. None for `next_at`: it has ended. `timing`: if the
    schedule has got another one since, the one that the range was counted by.
    """

    first_at: float
    last_at: float
    total: int
    max_running: int
    created_at: float
    next_at: float | None
    started: int = 0
    existing: int = 0
    ended_at: float | None = None
    is_stopped: bool = False
    timing: Timing | None = None


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """`next_at`, `last_at`: planned instants. `last_submitted_at`: when a run was actually submitted.

    `beginning_at`: the planned instant whose run is being submitted. It is written before the submission;
    from then on the run is submitted, also if the schedule is paused or deleted.
    `queued_at`: the occurrence that waits until the runs of the schedule have ended.
    `revision` counts the changes that callers made. `unwritten`: the latest entries of the history, which
    may not be in its stream yet; `entries`: the number of the last one.
    """

    schedule_id: str
    flow_name: str
    tag: str
    timing: Timing
    workflow_yaml_sha256: str | None
    workflow_yaml_bytes: int | None
    tenant_id: str | None
    api_key_id: str | None
    created_at: float
    updated_at: float
    next_at: float | None
    status: ScheduleStatus = ScheduleStatus.ACTIVE
    last_at: float | None = None
    last_submitted_at: float | None = None
    last_run_id: str | None = None
    dispatch_count: int = 0
    last_error: str | None = None
    beginning_at: float | None = None
    beginning_origin: StartOrigin = StartOrigin.DUE
    name: str | None = None
    revision: int = 1
    policies: Policies = Policies()
    planned_at_param: str | None = None
    submission_key: str | None = None
    paused_at: float | None = None
    queued_at: float | None = None
    backfill: Backfill | None = None
    skip_count: int = 0
    entries: int = 0
    unwritten: tuple[Occurrences, ...] = ()

    @property
    def submission_address(self) -> str:
        """Under which the submission of its runs is stored."""
        return self.submission_key or self.schedule_id

    @property
    def is_backfilling(self) -> bool:
        return self.backfill is not None and self.backfill.next_at is not None


def planned_run_id(schedule_id: str, planned_at: float, number: int = 0) -> str:
    """The same id for each submission of a planned run. `number`: of failed submissions before."""
    return str(uuid.uuid5(uuid.UUID(schedule_id), f"{planned_at:.6f}/{number}"))
