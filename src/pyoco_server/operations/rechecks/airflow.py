"""Executes batches as DAG runs of Airflow, through its REST API.

The id of a DAG run is that of the batch, so a second trigger is a conflict in Airflow and a success here. All
tries of one request share a time budget, and requests are throttled. Every failure has one of five reasons
and is Unavailable for the caller, because the caller cannot fix it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from datetime import datetime
from enum import StrEnum

import httpx

from pyoco_server import clock
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Unavailable
from pyoco_server.operations.rechecks.context import EndedBatch, NotEnded, RecheckCounters
from pyoco_server.operations.rechecks.workers import flow_params
from pyoco_server.recheck.records import Batch, Request, run_id_of
from pyoco_server.tracing import CORRELATION_HEADER, TRACEPARENT_HEADER

DAG = "pdca_recheck"
# The return value (XCom) of this task of the DAG is the output of the batch.
TASK = "evaluate"
# Less than the ten seconds that a client waits at most.
BUDGET_SEC = 9.0
TRY_SEC = 3.0
TRIES_MAX = 3
BACKOFF_SEC = 0.2
REQUESTS_PER_SEC = 5.0

_GOING = frozenset({"queued", "running", "restarting", "scheduled", "deferred"})

_IN_CONF = {"correlation_id": CORRELATION_HEADER, "traceparent": TRACEPARENT_HEADER}


class AirflowReason(StrEnum):
    TIMEOUT = "timeout"
    DOWN = "down"
    BAD_REQUEST = "bad_request"
    UNAUTHORISED = "unauthorised"
    ERROR = "error"


_WORTH_ANOTHER_TRY = frozenset({AirflowReason.TIMEOUT, AirflowReason.DOWN})


class AirflowTrouble(Unavailable):
    def __init__(self, reason: AirflowReason, said: str = "") -> None:
        super().__init__(f"Airflow cannot take this now ({reason}{': ' if said else ''}{said}).", err_id="")
        self.reason = reason


class Airflow:
    ask_every_sec: float | None = 5.0

    def __init__(self, config: NatsBackendConfig, counters: RecheckCounters) -> None:
        self._counters = counters
        self._client = httpx.AsyncClient(
            base_url=config.airflow_url.rstrip("/"),
            timeout=TRY_SEC,
            headers={"Authorization": f"Bearer {config.airflow_token}"} if config.airflow_token else {},
            auth=None if config.airflow_token else _basic(config),
        )
        self._next_at = 0.0

    async def start(self, request: Request, number: int, batch: Batch) -> None:
        conf = flow_params(request, batch) | {"flow": batch.flow, "batch": number}
        run_id = run_id_of(request.request_id, number)
        traced = _traced(request)
        conf |= {name: traced[header] for name, header in _IN_CONF.items() if header in traced}
        body = {"dag_run_id": run_id, "logical_date": None, "conf": conf}
        await self._ask("dagRuns.post", "POST", _address(), body, fine=(409,), headers=traced)

    async def read_end(self, run_id: str) -> EndedBatch | NotEnded:
        answer = await self._ask("dagRuns.get", "GET", _address(run_id), fine=(404,))
        if answer.status_code == 404:
            return NotEnded.MISSING
        run = _object(answer)
        state = str(run.get("state"))
        if state in _GOING:
            return NotEnded.RUNNING
        at = _instant(run.get("end_date"))
        if state != "success":
            return EndedBatch(at, error=f"the DAG run ended {state}")
        return EndedBatch(at, output=await self._read_output(run_id))

    async def stop(self) -> None:
        await self._client.aclose()

    async def _read_output(self, run_id: str) -> object:
        where = f"{_address(run_id)}/taskInstances/{TASK}/xcomEntries/return_value?stringify=false"
        answer = await self._ask("xcomEntries.get", "GET", where, fine=(404,))
        value = _object(answer).get("value") if answer.status_code != 404 else None
        with contextlib.suppress(ValueError, RecursionError):
            value = json.loads(value) if isinstance(value, str) else value
        return value

    async def _ask(
        self,
        endpoint: str,
        method: str,
        where: str,
        body: object = None,
        *,
        fine: tuple[int, ...] = (),
        headers: dict[str, str] | None = None,
    ) -> httpx.Response:
        """Send a request, with retries within the budget. `fine`: accepted statuses besides 2xx."""
        trouble = AirflowTrouble(AirflowReason.TIMEOUT)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(BUDGET_SEC):
                for number in range(TRIES_MAX):
                    await asyncio.sleep(BACKOFF_SEC * (2**number - 1))
                    try:
                        return await self._try(endpoint, method, where, body, fine, headers)
                    except AirflowTrouble as error:
                        trouble = error
                        if error.reason not in _WORTH_ANOTHER_TRY:
                            break
        raise trouble

    async def _try(
        self,
        endpoint: str,
        method: str,
        where: str,
        body: object,
        fine: tuple[int, ...],
        headers: dict[str, str] | None,
    ) -> httpx.Response:
        await self._throttle()
        outcome = "ok"
        try:
            answer = await self._client.request(method, where, json=body, headers=headers)
            if not answer.is_success and answer.status_code not in fine:
                raise AirflowTrouble(_reason(answer.status_code), f"status {answer.status_code}")
            return answer
        except httpx.TimeoutException:
            outcome = AirflowReason.TIMEOUT
            raise AirflowTrouble(AirflowReason.TIMEOUT) from None
        except httpx.TransportError:
            outcome = AirflowReason.DOWN
            raise AirflowTrouble(AirflowReason.DOWN) from None
        except AirflowTrouble as error:
            outcome = error.reason
            raise
        finally:
            self._counters.airflow[endpoint, str(outcome)] += 1

    async def _throttle(self) -> None:
        """Wait until the next request is allowed."""
        now = asyncio.get_running_loop().time()
        self._next_at = max(self._next_at, now) + 1 / REQUESTS_PER_SEC
        await asyncio.sleep(self._next_at - 1 / REQUESTS_PER_SEC - now)


def _traced(request: Request) -> dict[str, str]:
    """The trace headers of the request, for the log of Airflow and for the tasks of the DAG."""
    traced = {CORRELATION_HEADER: request.correlation_id or request.request_id}
    return traced | ({TRACEPARENT_HEADER: request.traceparent} if request.traceparent else {})


def _address(run_id: str = "") -> str:
    return f"/api/v2/dags/{DAG}/dagRuns" + (f"/{run_id}" if run_id else "")


def _basic(config: NatsBackendConfig) -> httpx.BasicAuth | None:
    return (
        httpx.BasicAuth(config.airflow_user, config.airflow_password or "") if config.airflow_user else None
    )


def _reason(status: int) -> AirflowReason:
    match status:
        case 401 | 403:
            return AirflowReason.UNAUTHORISED
        case 408 | 504:
            return AirflowReason.TIMEOUT
        case 429 | 502 | 503:
            return AirflowReason.DOWN
        case _ if 400 <= status < 500:
            return AirflowReason.BAD_REQUEST
    return AirflowReason.ERROR


def _object(answer: httpx.Response) -> dict[str, object]:
    try:
        value = answer.json()
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise AirflowTrouble(AirflowReason.ERROR, "an answer that is no object")
    return value


def _instant(text: object) -> float:
    with contextlib.suppress(ValueError, TypeError):
        return datetime.fromisoformat(str(text)).timestamp()
    return clock.now()
