"""A schedule and what happened to its occurrences, as JSON."""

from __future__ import annotations

from msgspec.structs import asdict

from pyoco_server.json_value import JsonObject
from pyoco_server.schedules.record import Backfill, Occurrences, Schedule
from pyoco_server.schedules.timing import starts_at


def shown(schedule: Schedule, last_status: str | None = None) -> JsonObject:
    """The members of the upstream server, and those that it does not have."""
    timing, policies, next_at = schedule.timing, schedule.policies, schedule.next_at
    begins = None if next_at is None else starts_at(schedule.schedule_id, timing, next_at)
    return {
        "schedule_id": schedule.schedule_id,
        "name": schedule.name,
        "flow_name": schedule.flow_name,
        "tag": schedule.tag,
        "status": schedule.status,
        "revision": schedule.revision,
        "schedule_type": timing.kind,
        "workflow_yaml_sha256": schedule.workflow_yaml_sha256,
        "workflow_yaml_bytes": schedule.workflow_yaml_bytes,
        "tenant_id": schedule.tenant_id,
        "api_key_id": schedule.api_key_id,
        "created_at": schedule.created_at,
        "updated_at": schedule.updated_at,
        "run_at": timing.run_at,
        "interval_seconds": timing.interval_seconds,
        "start_at": timing.start_at,
        "cron": timing.cron,
        "timezone": timing.timezone,
        "end_at": timing.end_at,
        "jitter_seconds": timing.jitter_seconds,
        "overlap": policies.overlap,
        "catch_up": policies.catch_up,
        "catch_up_within_seconds": policies.catch_up_within_seconds,
        "planned_at_param": schedule.planned_at_param,
        "paused_at": schedule.paused_at,
        "next_run_at": begins,
        "next_at": next_at,
        "queued_at": schedule.queued_at,
        "last_at": schedule.last_at,
        "last_submitted_at": schedule.last_submitted_at,
        "last_run_id": schedule.last_run_id,
        "last_status": last_status,
        "dispatch_count": schedule.dispatch_count,
        "skip_count": schedule.skip_count,
        "last_error": schedule.last_error,
        "backfill": None if schedule.backfill is None else _backfill(schedule.backfill),
    }


def occurrences(entry: Occurrences) -> JsonObject:
    return asdict(entry)


def _backfill(backfill: Backfill) -> JsonObject:
    ended = "STOPPED" if backfill.is_stopped else "COMPLETED"
    return {
        "state": ended if backfill.next_at is None else "RUNNING",
        "from": backfill.first_at,
        "to": backfill.last_at,
        "next_at": backfill.next_at,
        "total": backfill.total,
        "started": backfill.started,
        "existing": backfill.existing,
        "max_running": backfill.max_running,
        "created_at": backfill.created_at,
        "ended_at": backfill.ended_at,
    }
