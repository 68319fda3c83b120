"""Answers about schedules. Instants are unix seconds."""

from __future__ import annotations

from typing import TypedDict


class ScheduleAnswer(TypedDict, total=False):
    """A schedule. Instants are unix seconds."""

    schedule_id: str
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
    next_run_at: float | None
    next_at: float | None
    last_at: float | None
    last_submitted_at: float | None
    last_run_id: str | None
    last_status: str | None
    upcoming: list[float]
    dispatch_count: int
    last_error: str | None


class DeletedScheduleAnswer(TypedDict):
    """A schedule that was deleted."""

    schedule_id: str
    deleted: bool
