"""Calls of the HTTP client about schedules: flows that are run at their time."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx


class ScheduleCalls:
    """Part of `PyocoHttpClient`. Of `run_at`, `interval_seconds` and `cron` exactly one says when.

    Instants are ISO 8601 with an offset. `start_at` goes with an interval, `timezone` with cron.
    """

    _http: httpx.Client

    def create_schedule(
        self,
        flow_name: str,
        params: dict[str, Any] | None = None,
        *,
        tag: str | None = None,
        tags: list[str] | None = None,
        run_at: str | None = None,
        interval_seconds: float | None = None,
        start_at: str | None = None,
        cron: str | None = None,
        timezone: str | None = None,
    ) -> dict[str, Any]:
        """A schedule for a flow that workers know by its name."""
        wanted = {"flow_name": flow_name, "params": params or {}} | _given(tag=tag, tags=tags)
        wanted |= _given(run_at=run_at, interval_seconds=interval_seconds, start_at=start_at)
        return _answer(self._http.post("/schedules", json=wanted | _given(cron=cron, timezone=timezone)))

    def create_yaml_schedule(
        self,
        workflow_yaml: str | bytes,
        *,
        flow_name: str,
        tag: str | None = None,
        run_at: str | None = None,
        interval_seconds: float | None = None,
        start_at: str | None = None,
        cron: str | None = None,
        timezone: str | None = None,
    ) -> dict[str, Any]:
        """A schedule for the flow in this `flow.yaml`."""
        form = {"flow_name": flow_name} | _given(tag=tag, run_at=run_at, start_at=start_at)
        form |= _given(interval_seconds=interval_seconds, cron=cron, timezone=timezone)
        return _answer(self._http.post("/schedules/yaml", files=workflow_file(workflow_yaml), data=form))

    def list_schedules(self) -> list[dict[str, Any]]:
        """The latest first."""
        found: list[dict[str, Any]] = self._http.get("/schedules").raise_for_status().json()
        return found

    def list_schedule_runs(
        self, schedule_id: str, *, include_records: bool = False, limit: int | None = None
    ) -> list[dict[str, Any]]:
        """The runs that it has begun, those that changed last first."""
        query = _given(limit=limit, include="records" if include_records else None)
        answer = self._http.get(f"{_path(schedule_id)}/runs", params=query)
        found: list[dict[str, Any]] = answer.raise_for_status().json()
        return found

    def delete_schedule(self, schedule_id: str) -> dict[str, Any]:
        """No more runs of it are begun; those that were go on."""
        return _answer(self._http.delete(_path(schedule_id)))


def workflow_file(workflow_yaml: str | bytes) -> dict[str, tuple[str, bytes, str]]:
    content = workflow_yaml.encode() if isinstance(workflow_yaml, str) else workflow_yaml
    return {"workflow": ("flow.yaml", content, "application/x-yaml")}


def _path(schedule_id: str) -> str:
    return f"/schedules/{quote(schedule_id, safe='')}"


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _answer(response: httpx.Response) -> dict[str, Any]:
    answer: dict[str, Any] = response.raise_for_status().json()
    return answer
