"""Answers about schedules. Instants are unix seconds."""

from __future__ import annotations

from typing import TypedDict


class BackfillAnswer(TypedDict, total=False):
    """Runs for what was due between two instants of the past."""

    state: str
    to: float
    next_at: float | None
    total: int
    started: int
    existing: int
    max_running: int
    created_at: float
    ended_at: float | None


class OccurrenceAnswer(TypedDict, total=False):
    """What happened to one planned instant, or to several that were skipped together."""

    number: int
    outcome: str
    first_at: float
    last_at: float
    recorded_at: float
    count: int | None
    origin: str
    reason: str | None
    run_id: str | None


class OccurrencePageAnswer(TypedDict):
    """A page of occurrences, the latest first. `next_before`: where the next page begins."""

    occurrences: list[OccurrenceAnswer]
    next_before: int | None


class ScheduleAnswer(TypedDict, total=False):
    """A schedule. Instants are unix seconds."""

    schedule_id: str
    name: str | None
    revision: int
    flow_name: str
    tag: str
    status: str
    schedule_type: str
    workflow_yaml_sha256: str | None
    workflow_yaml_bytes: int | None
    tenant_id: str | None
    api_key_id: str | None
    created_at: float
    updated_at: float
    run_at: float | None
    interval_seconds: float | None
    start_at: float | None
    cron: str | None
    timezone: str | None
    end_at: float | None
    jitter_seconds: float
    overlap: str
    catch_up: str
    catch_up_within_seconds: float | None
    planned_at_param: str | None
    paused_at: float | None
    queued_at: float | None
    next_run_at: float | None
    next_at: float | None
    last_at: float | None
    last_submitted_at: float | None
    last_run_id: str | None
    last_status: str | None
    upcoming: list[float]
    dispatch_count: int
    skip_count: int
    backfill: BackfillAnswer | None
    runs: dict[str, int]
    last_error: str | None


class DeletedScheduleAnswer(TypedDict):
    """A schedule that was deleted."""

    schedule_id: str
    deleted: bool
