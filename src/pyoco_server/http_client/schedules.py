"""Calls about schedules, which start runs by time.

A schedule has exactly one of `run_at`, `interval_seconds` and `cron`. Instants are ISO 8601 with an
offset. `start_at` belongs to an interval, `timezone` to cron.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyoco_server.http_client.calls import given, key_header, path_of
from pyoco_server.http_client.runs import workflow_file
from pyoco_server.http_client.script import ApiRequest, Script, ask

if TYPE_CHECKING:
    from pyoco_server.http_client.answers import (
        DeletedScheduleAnswer,
        RunAnswer,
        ScheduleAnswer,
        SubmittedRunAnswer,
    )


def create_schedule(
    flow_name: str,
    params: Mapping[str, object] | None = None,
    *,
    tag: str | None = None,
    tags: list[str] | None = None,
    run_at: str | None = None,
    interval_seconds: float | None = None,
    start_at: str | None = None,
    cron: str | None = None,
    timezone: str | None = None,
) -> Script[ScheduleAnswer]:
    """A schedule for a flow of the workers. Exactly one of `run_at`, `interval_seconds` and `cron` is
    given.

    The gateway takes no idempotency key here: after a lost answer the call raises, and is not sent again.
    """
    wanted = {"flow_name": flow_name, "params": dict(params or {}), **given(tag=tag, tags=tags)}
    wanted |= given(run_at=run_at, interval_seconds=interval_seconds, start_at=start_at)
    wanted |= given(cron=cron, timezone=timezone)
    return ask(ApiRequest("POST", "/schedules", json=wanted, repeatable=False))


def create_yaml_schedule(
    workflow_yaml: str | bytes,
    *,
    flow_name: str,
    tag: str | None = None,
    run_at: str | None = None,
    interval_seconds: float | None = None,
    start_at: str | None = None,
    cron: str | None = None,
    timezone: str | None = None,
) -> Script[ScheduleAnswer]:
    """A schedule for the flow in this `flow.yaml`."""
    form = {"flow_name": flow_name, **given(tag=tag, run_at=run_at, start_at=start_at)}
    form |= given(interval_seconds=interval_seconds, cron=cron, timezone=timezone)
    files = workflow_file(workflow_yaml)
    return ask(ApiRequest("POST", "/schedules/yaml", form=form, files=files, repeatable=False))


def list_schedules(*, upcoming: int | None = None) -> Script[list[ScheduleAnswer]]:
    """All schedules, the latest first. `upcoming`: with this many of the next instants of each."""
    return ask(ApiRequest("GET", "/schedules", given(upcoming=upcoming)))


def run_schedule(schedule_id: str, *, idempotency_key: str | None = None) -> Script[SubmittedRunAnswer]:
    """Start one more run of the schedule, now. Its next instants stay as they are."""
    headers = key_header(idempotency_key)
    return ask(ApiRequest("POST", path_of("schedules", schedule_id, "run"), headers=headers))


def list_schedule_runs(
    schedule_id: str, *, include_records: bool = False, limit: int | None = None
) -> Script[list[RunAnswer]]:
    """The runs that it has started, those that changed last first."""
    query = given(limit=limit, include="records" if include_records else None)
    return ask(ApiRequest("GET", path_of("schedules", schedule_id, "runs"), query))


def delete_schedule(schedule_id: str) -> Script[DeletedScheduleAnswer]:
    """The schedule starts no more runs. Runs that it has started go on."""
    return ask(ApiRequest("DELETE", path_of("schedules", schedule_id), repeatable=False))
