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
# The pause between two looks grows from the first to the last.
POLL_PAUSE_SEC = (0.005, 0.25)
POLL_GROWTH = 1.5


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
        pause_sec, longest_sec = POLL_PAUSE_SEC
        while (run := self.get_run(run_id))["status"] not in TERMINAL:
            left_sec = longest_sec if deadline is None else deadline - time.monotonic()
            if left_sec <= 0:
                raise TimeoutError(f"Run {run_id} is still {run['status']} after {timeout_sec:g} s.")
            time.sleep(min(pause_sec, left_sec))
            pause_sec = min(pause_sec * POLL_GROWTH, longest_sec)
        return run


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
