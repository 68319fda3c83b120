"""Accept a recheck request: reserve its key, store it, then start its batches. In this order, and once.

A second try with the same key finds what the first one stored and continues there. The ids of the runs are
derived from the id of the request, so a second try adds no runs. Batches that are not started here (there are
many, or the gateway died) are started by housekeeping.

The batches are a member of a small request. Those of a large one are in an object (`plan_object`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from pyoco_server import clock
from pyoco_server.errors import Invalid, NotFound
from pyoco_server.ids import new_token
from pyoco_server.operations.bounded_dict import put_bounded
from pyoco_server.operations.idempotency.key_scope import IdempotencyKey
from pyoco_server.operations.idempotency.keyed_request import Reservation
from pyoco_server.operations.idempotency.request_digest import RequestDigest
from pyoco_server.operations.identity.callers import Caller
from pyoco_server.operations.rechecks.context import RecheckContext, client_of, tenant_of
from pyoco_server.read_model.recheck_queries import RecheckQueries
from pyoco_server.read_model.recheck_table import StrategySearch
from pyoco_server.recheck.records import Batch, Request, batches_of
from pyoco_server.recheck.request_body import RecheckBody
from pyoco_server.store.store import Store

CHOSEN_MAX = 100_000
# Batches that are started before the answer; housekeeping starts the rest.
STARTED_AT_ONCE_MAX = 100
SIDE_BY_SIDE = 16
# More strategies than this are stored in an object.
INLINE_STRATEGIES_MAX = 1_000
# The plans of the latest large requests are kept in memory: each is read once for every batch.
KEPT_MAX = 4

# The id and the flow of each strategy.
Chosen = list[tuple[str, str]]

_decode_plan = msgspec.json.Decoder(list[Batch]).decode
_kept: dict[str, list[Batch]] = {}


class Sender(NamedTuple):
    """The sender of a request, and the trace that it belongs to."""

    caller: Caller
    correlation_id: str | None = None
    traceparent: str | None = None


async def accept(
    context: RecheckContext,
    sender: Sender,
    asked: RecheckBody,
    chosen: Chosen | Invalid,
    reservation: Reservation,
) -> Request:
    """Store the request and start its first batches. `chosen`: from `choose`."""
    request = await _store_request(context, sender, asked, chosen, reservation)
    if not request.dry_run:
        await start_batches(context, request, range(min(request.batches, STARTED_AT_ONCE_MAX)))
    return request


async def start_batches(context: RecheckContext, request: Request, numbers: Iterable[int]) -> None:
    """Repeatable: a batch that was started stays as it is. The first error is raised after all were tried."""
    plan = await plan_of(context.store, request)
    places = asyncio.Semaphore(SIDE_BY_SIDE)

    async def start(number: int) -> None:
        async with places:
            await context.executor.start(request, number, plan[number])

    starting = [start(number) for number in numbers if number < len(plan)]
    for end in await asyncio.gather(*starting, return_exceptions=True):
        if isinstance(end, BaseException):
            raise end


async def plan_of(store: Store, request: Request) -> list[Batch]:
    """Empty if the object does not exist any more."""
    if request.plan_object is None:
        return list(request.plan or ())
    plan = _kept.get(request.plan_object)
    if plan is None:
        try:
            plan = _decode_plan(await store.artifacts.get(request.plan_object))
        except NotFound:
            return []
        put_bounded(_kept, request.plan_object, plan, KEPT_MAX)
    return plan


async def put_plan(store: Store, request_id: str, batches: list[Batch]) -> dict[str, object]:
    """The members of the request that hold its batches or name their object. Each try has its own object."""
    if sum(len(batch.strategies) for batch in batches) <= INLINE_STRATEGIES_MAX:
        return {"plan": tuple(batches)}
    name = f"plans/{request_id}/{new_token()}"
    await store.artifacts.put(name, msgspec.json.encode(batches))
    return {"plan_object": name}


async def choose(
    context: RecheckContext, caller: Caller, asked: RecheckBody, key: IdempotencyKey, wanted: RequestDigest
) -> Chosen | Invalid:
    """The strategies of the request. Raises Invalid, before the key is reserved, if it names none that exist.

    If the key has a record of the same request, Invalid is returned instead: an accepted request is answered
    as before, also when the catalogue has changed.
    """
    tenant, reading = tenant_of(caller), await context.model.catch_up()
    try:
        if asked.filter is not None:
            return _matching(reading, tenant, asked)
        return _named(reading, tenant, asked.strategies)
    except Invalid as refused:
        known = (await context.store.ledger.get(key.address)).record
        if known is None or known.digest != wanted.digest:
            raise
        return refused


def _named(reading: RecheckQueries, tenant: str, strategies: tuple[str, ...]) -> Chosen:
    found = [(one, reading.find(tenant, one)) for one in strategies]
    unknown = [one for one, listed in found if listed is None]
    if unknown:
        # All of them: a request names at most STRATEGIES_MAX, so the list is bounded.
        raise Invalid(f"strategies names unknown ids: {', '.join(unknown)}.", details={"unknown": unknown})
    chosen = [(one, listed.strategy.flow) for one, listed in found if listed and listed.strategy.enabled]
    if not chosen:
        raise Invalid("strategies names only disabled ones; nothing is left to be rechecked.")
    return chosen


def _matching(reading: RecheckQueries, tenant: str, asked: RecheckBody) -> Chosen:
    assert asked.filter is not None
    wanted = asked.filter
    search = StrategySearch(
        tenant=tenant,
        tags=wanted.tags_any,
        health=wanted.health,
        instruments=wanted.instrument_any,
        enabled=True,
    )
    chosen = reading.flows_of(search, CHOSEN_MAX + 1)
    if len(chosen) > CHOSEN_MAX:
        raise Invalid(f"filter matches more than {CHOSEN_MAX} strategies; choose fewer.")
    return chosen


async def _store_request(
    context: RecheckContext,
    sender: Sender,
    asked: RecheckBody,
    chosen: Chosen | Invalid,
    reservation: Reservation,
) -> Request:
    tenant, request_id = tenant_of(sender.caller), reservation.resource_id
    if reservation.may_have_happened:
        earlier = await context.store.rechecks.request(tenant, request_id)
        if earlier is not None:
            return earlier
    if isinstance(chosen, Invalid):
        raise chosen
    batches = batches_of(chosen, asked.batch_size)
    plan = {} if asked.dry_run else await put_plan(context.store, request_id, batches)
    return await context.store.rechecks.create_request(
        Request(
            request_id=request_id,
            tenant=tenant,
            client_id=client_of(sender.caller),
            reason=asked.reason,
            submitted_at=round(clock.now(), 3),
            strategies=len(chosen),
            batches=len(batches),
            dry_run=asked.dry_run,
            window=asked.window,
            params=asked.params,
            trace_id=asked.trace_id,
            run_tenant=sender.caller.tenant_id,
            run_api_key_id=sender.caller.api_key_id,
            correlation_id=sender.correlation_id,
            traceparent=sender.traceparent,
            **plan,  # type: ignore[arg-type]
        )
    )
