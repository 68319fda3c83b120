"""What all recheck operations use: the store, the index, the executor of batches, and counters."""

from __future__ import annotations

from collections import Counter
from enum import Enum, auto
from typing import NamedTuple, Protocol

from pyoco_server.operations.fleet.counters import Histogram
from pyoco_server.operations.identity.callers import DEFAULT_TENANT, Caller
from pyoco_server.read_model.rechecks import RecheckModel
from pyoco_server.recheck.records import Batch, Request
from pyoco_server.store.store import Store

ANONYMOUS_CLIENT = "anonymous"
LATENCY_BOUNDS_MS = (1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 1_000.0, 5_000.0, 10_000.0)


class EndedBatch(NamedTuple):
    """How the run of a batch ended: the output of its flow, or why there is none."""

    at: float
    output: object = None
    error: str | None = None


class NotEnded(Enum):
    RUNNING = auto()
    MISSING = auto()  # not started yet


class Executor(Protocol):
    """Evaluates batches: our own workers, or an external system."""

    # How often the executor is asked whether a batch has ended; None: the feed reports it.
    ask_every_sec: float | None

    async def start(self, request: Request, number: int, batch: Batch) -> None:
        """Start the run of a batch. Repeatable: the id of the run is derived. Raises Unavailable."""

    async def read_end(self, run_id: str) -> EndedBatch | NotEnded: ...

    async def stop(self) -> None: ...


class RecheckCounters:
    """What this gateway has counted since its start. Endpoints and outcomes are from closed sets."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str]] = Counter()
        self.latency: dict[str, Histogram] = {}
        self.idempotency_conflicts = 0
        self.airflow: Counter[tuple[str, str]] = Counter()

    def request(self, endpoint: str, outcome: str, milliseconds: float) -> None:
        self.requests[endpoint, outcome] += 1
        self.latency.setdefault(endpoint, Histogram(LATENCY_BOUNDS_MS)).add(milliseconds)
        self.idempotency_conflicts += outcome == "IDEMPOTENCY_CONFLICT"


class RecheckContext(NamedTuple):
    store: Store
    model: RecheckModel
    executor: Executor
    counters: RecheckCounters


def tenant_of(caller: Caller) -> str:
    return caller.tenant_id or DEFAULT_TENANT


def client_of(caller: Caller) -> str:
    """The `client_id` of the API: a key's id or a token's sub. To tell callers apart, use the principal."""
    return caller.id or ANONYMOUS_CLIENT
