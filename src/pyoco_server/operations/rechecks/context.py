"""What the verbs of rechecks have at hand: the store, the index, and whoever evaluates."""

from __future__ import annotations

from enum import Enum, auto
from typing import Any, NamedTuple, Protocol

from pyoco_server.operations.identity.callers import DEFAULT_TENANT, Caller
from pyoco_server.operations.rechecks.counters import RecheckCounters
from pyoco_server.read_model.rechecks import RecheckModel
from pyoco_server.recheck.batches import Batch
from pyoco_server.recheck.records import Request
from pyoco_server.store.store import Store

ANONYMOUS = "anonymous"


class EndedBatch(NamedTuple):
    """How a batch's run ended: what its flow returned, or why it returned nothing."""

    at: float
    output: Any = None
    error: str | None = None


class NotEnded(Enum):
    GOES_ON = auto()
    MISSING = auto()  # not started yet


class Executor(Protocol):
    """Evaluates batches: our own workers, or an external system."""

    # Where it does not tell us of an end, we ask this often; None: we are told.
    ask_every_sec: float | None

    async def start(self, request: Request, number: int, batch: Batch) -> None:
        """Once, however often it is asked for: the run's id follows from the request. Raises Unavailable."""

    async def ended(self, run_id: str) -> EndedBatch | NotEnded: ...

    async def stop(self) -> None: ...


class RecheckContext(NamedTuple):
    store: Store
    model: RecheckModel
    executor: Executor
    observed: RecheckCounters


def tenant_of(caller: Caller) -> str:
    return caller.tenant_id or DEFAULT_TENANT


def client_of(caller: Caller) -> str:
    """What the document calls `client_id`: a token's sub. To tell callers apart, use their principal."""
    return caller.id or ANONYMOUS
