"""Calls of the HTTP client about schedules, which start runs by time."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx

from pyoco_server.http_client.calls import given, list_in, object_in


class ScheduleCalls:
    """Part of `PyocoHttpClient`. A schedule has exactly one of `run_at`, `interval_seconds` and `cron`.

    Instants are ISO 8601 with an offset. `start_at` belongs to an interval, `timezone` to cron.
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
        """A schedule for a flow of the workers."""
        wanted = {"flow_name": flow_name, "params": params or {}} | given(tag=tag, tags=tags)
        wanted |= given(run_at=run_at, interval_seconds=interval_seconds, start_at=start_at)
        return object_in(self._http.post("/schedules", json=wanted | given(cron=cron, timezone=timezone)))

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
        form = {"flow_name": flow_name} | given(tag=tag, run_at=run_at, start_at=start_at)
        form |= given(interval_seconds=interval_seconds, cron=cron, timezone=timezone)
        return object_in(self._http.post("/schedules/yaml", files=workflow_file(workflow_yaml), data=form))

    def list_schedules(self) -> list[dict[str, Any]]:
        """The latest first."""
        return list_in(self._http.get("/schedules"))

    def list_schedule_runs(
        self, schedule_id: str, *, include_records: bool = False, limit: int | None = None
    ) -> list[dict[str, Any]]:
        """The runs that it has started, those that changed last first."""
        query = given(limit=limit, include="records" if include_records else None)
        return list_in(self._http.get(f"{_path(schedule_id)}/runs", params=query))

    def delete_schedule(self, schedule_id: str) -> dict[str, Any]:
        """The schedule starts no more runs. Runs that it has started go on."""
        return object_in(self._http.delete(_path(schedule_id)))


def workflow_file(workflow_yaml: str | bytes) -> dict[str, tuple[str, bytes, str]]:
    content = workflow_yaml.encode() if isinstance(workflow_yaml, str) else workflow_yaml
    return {"workflow": ("flow.yaml", content, "application/x-yaml")}


def _path(schedule_id: str) -> str:
    return f"/schedules/{quote(schedule_id, safe='')}"
