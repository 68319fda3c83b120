"""The gateway's HTTP API as Python calls. Stands alone: needs httpx and nothing else of ours.

Every answer is the JSON the gateway sent. A refusal is an `httpx.HTTPStatusError`; waiting in vain is a
`TimeoutError`.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx

TERMINAL = frozenset({"COMPLETED", "FAILED", "CANCELLED"})
REQUEST_TIMEOUT_SEC = 30.0
CANCEL_WAIT_SEC = 30.0
# How long one request may wait for the end of a run; the next one goes on waiting.
ONE_WAIT_SEC = 20.0


class PyocoHttpClient:
    def __init__(
        self, base_url: str, *, api_key: str | None = None, api_key_header: str = "X-API-Key"
    ) -> None:
        headers = {api_key_header: api_key} if api_key else {}
        self._http = httpx.Client(base_url=base_url.rstrip("/"), headers=headers, timeout=REQUEST_TIMEOUT_SEC)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def submit_run(
        self,
        flow_name: str,
        params: dict[str, Any] | None = None,
        *,
        tag: str | None = None,
        tags: list[str] | None = None,
    ) -> dict[str, Any]:
        """`{"run_id", "status"}`: the run is stored and queued."""
        wanted: dict[str, Any] = {"flow_name": flow_name, "params": params or {}}
        wanted |= _given(tag=tag, tags=tags)
        return _object(self._http.post("/runs", json=wanted))

    def get_run(self, run_id: str) -> dict[str, Any]:
        return _object(self._http.get(_path(run_id)))

    def get_run_with_records(self, run_id: str) -> dict[str, Any]:
        """As `get_run`, with `task_records`: inputs, outputs and errors of every task."""
        return _object(self._http.get(_path(run_id), params={"include": "records"}))

    def get_tasks(self, run_id: str) -> dict[str, Any]:
        return _object(self._http.get(f"{_path(run_id)}/tasks"))

    def list_runs(
        self,
        *,
        status: str | None = None,
        flow: str | None = None,
        tag: str | None = None,
        full: bool = False,
        limit: int | None = None,
    ) -> list[dict[str, Any]]:
        """Newest first."""
        query = _given(status=status, flow=flow, tag=tag, limit=limit, include="full" if full else None)
        runs: list[dict[str, Any]] = _answer(self._http.get("/runs", params=query))
        return runs

    def cancel_run(
        self, run_id: str, *, wait: bool = False, timeout_sec: float | None = None
    ) -> dict[str, Any]:
        """Ask the run to stop. With `wait`: its end, within 30 s unless told otherwise, else TimeoutError."""
        asked = _object(self._http.post(f"{_path(run_id)}/cancel"))
        if not wait or asked["status"] in TERMINAL:
            return asked
        return self.wait_run(run_id, CANCEL_WAIT_SEC if timeout_sec is None else timeout_sec)

    def wait_run(self, run_id: str, timeout_sec: float | None = None) -> dict[str, Any]:
        """The run once it has ended; TimeoutError when it has not within `timeout_sec` (None: no limit)."""
        deadline = None if timeout_sec is None else time.monotonic() + timeout_sec
        left_sec = ONE_WAIT_SEC
        while True:
            if deadline is not None:
                left_sec = max(0.0, deadline - time.monotonic())
            run = self._get_waiting(run_id, min(left_sec, ONE_WAIT_SEC))
            if run["status"] in TERMINAL:
                return run
            if left_sec == 0:
                raise TimeoutError(f"Run {run_id} is still {run['status']} after {timeout_sec:g} s.")

    def _get_waiting(self, run_id: str, wait_sec: float) -> dict[str, Any]:
        """The gateway answers when the run ends, or after this long: nobody has to ask again and again."""
        patience = REQUEST_TIMEOUT_SEC + wait_sec
        return _object(self._http.get(_path(run_id), params={"wait": f"{wait_sec:.3f}"}, timeout=patience))


def _path(run_id: str) -> str:
    return f"/runs/{quote(run_id, safe='')}"


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _object(response: httpx.Response) -> dict[str, Any]:
    answer: dict[str, Any] = _answer(response)
    return answer


def _answer(response: httpx.Response) -> Any:
    response.raise_for_status()
    return response.json()
