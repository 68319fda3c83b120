"""Calls about schedules, which start runs by time.

A schedule has exactly one of `run_at`, `interval_seconds` and `cron`. Instants are ISO 8601 with an
offset. `start_at` and `end_at` belong to an interval or cron, `timezone` to cron. `overlap` is `allow`,
`skip`, `queue_one` or `cancel_running`; `catch_up` is `none`, `last` or `all_within`.
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
        OccurrencePageAnswer,
        RunAnswer,
        ScheduleAnswer,
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
    end_at: str | None = None,
    jitter_seconds: float | None = None,
    name: str | None = None,
    overlap: str | None = None,
    catch_up: str | None = None,
    catch_up_within_seconds: float | None = None,
    planned_at_param: str | None = None,
    paused: bool | None = None,
) -> Script[ScheduleAnswer]:
    """A schedule for a flow of the workers. Exactly one of `run_at`, `interval_seconds` and `cron` is
    given.

    The gateway takes no idempotency key here: after a lost answer the call raises, and is not sent again.
    """
    wanted = {"flow_name": flow_name, "params": dict(params or {}), **given(tag=tag, tags=tags)}
    wanted |= given(run_at=run_at, interval_seconds=interval_seconds, start_at=start_at)
    wanted |= given(cron=cron, timezone=timezone)
    wanted |= given(
        end_at=end_at, jitter_seconds=jitter_seconds, name=name, overlap=overlap, catch_up=catch_up
    )
    wanted |= given(
        catch_up_within_seconds=catch_up_within_seconds, planned_at_param=planned_at_param, paused=paused
    )
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
    end_at: str | None = None,
    jitter_seconds: float | None = None,
    name: str | None = None,
    overlap: str | None = None,
    catch_up: str | None = None,
    catch_up_within_seconds: float | None = None,
    planned_at_param: str | None = None,
    paused: bool | None = None,
) -> Script[ScheduleAnswer]:
    """A schedule for the flow in this `flow.yaml`."""
    form = {"flow_name": flow_name, **given(tag=tag, run_at=run_at, start_at=start_at)}
    form |= given(interval_seconds=interval_seconds, cron=cron, timezone=timezone)
    form |= given(end_at=end_at, jitter_seconds=jitter_seconds, name=name, overlap=overlap, catch_up=catch_up)
    form |= given(
        catch_up_within_seconds=catch_up_within_seconds, planned_at_param=planned_at_param, paused=paused
    )
    files = workflow_file(workflow_yaml)
    return ask(ApiRequest("POST", "/schedules/yaml", form=form, files=files, repeatable=False))


def list_schedules(*, upcoming: int | None = None) -> Script[list[ScheduleAnswer]]:
    """All schedules, the latest first. `upcoming`: with this many of the next instants of each."""
    return ask(ApiRequest("GET", "/schedules", given(upcoming=upcoming)))


def get_schedule(schedule_id: str, *, upcoming: int | None = None) -> Script[ScheduleAnswer]:
    """A schedule with its next instants, and in `runs` how many of its runs have which status."""
    return ask(ApiRequest("GET", path_of("schedules", schedule_id), given(upcoming=upcoming)))


def edit_schedule(
    schedule_id: str, changes: Mapping[str, object], *, revision: int
) -> Script[ScheduleAnswer]:
    """Change the members in `changes`; None removes one. They have the names of the arguments above.

    `revision`: that of the schedule as it was read. A schedule that has changed since refuses it (409).
    """
    wanted = {**changes, "revision": revision}
    return ask(ApiRequest("PATCH", path_of("schedules", schedule_id), json=wanted, repeatable=False))


def pause_schedule(schedule_id: str) -> Script[ScheduleAnswer]:
    """When this returns, the schedule starts no more runs until it is resumed."""
    return ask(ApiRequest("POST", path_of("schedules", schedule_id, "pause")))


def resume_schedule(schedule_id: str) -> Script[ScheduleAnswer]:
    """What was due in the pause is not started."""
    return ask(ApiRequest("POST", path_of("schedules", schedule_id, "resume")))


def backfill_schedule(
    schedule_id: str, begin: str, end: str, *, max_running: int | None = None
) -> Script[ScheduleAnswer]:
    """Start the runs of what was due between two instants of the past and has no run."""
    wanted = {"from": begin, "to": end} | given(max_running=max_running)
    request = ApiRequest("POST", path_of("schedules", schedule_id, "backfill"), json=wanted, repeatable=False)
    return ask(request)


def stop_backfill(schedule_id: str) -> Script[ScheduleAnswer]:
    """Runs that it has started go on."""
    return ask(ApiRequest("DELETE", path_of("schedules", schedule_id, "backfill")))


def list_occurrences(
    schedule_id: str, *, limit: int | None = None, before: int | None = None
) -> Script[OccurrencePageAnswer]:
    """What happened to each planned instant, the latest first: its run, or why it has none.

    `before`: the `next_before` of the previous page.
    """
    query = given(limit=limit, before=before)
    return ask(ApiRequest("GET", path_of("schedules", schedule_id, "occurrences"), query))


def run_schedule(schedule_id: str, *, idempotency_key: str | None = None) -> Script[dict[str, object]]:
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
