"""Accept a request: reserve its key, store it, then start its batches. In this order, and once.

A second try after trouble, by the same key, finds what the first one stored and goes on there; the runs' ids
follow from the request's, so it cannot add runs. What is left unstarted, because there are many or because we
died, is started by housekeeping.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

from pyoco_server import clock
from pyoco_server.errors import Invalid
from pyoco_server.operations.idempotency.key_scope import IdempotencyKey
from pyoco_server.operations.idempotency.keyed_request import Reservation
from pyoco_server.operations.idempotency.request_digest import RequestDigest
from pyoco_server.operations.identity.callers import Caller
from pyoco_server.operations.rechecks.context import RecheckContext, client_of, tenant_of
from pyoco_server.operations.rechecks.plans import plan_of, put_plan
from pyoco_server.read_model.recheck_queries import RecheckQueries
from pyoco_server.read_model.recheck_table import StrategySearch
from pyoco_server.recheck.asked import AskedRecheck
from pyoco_server.recheck.batches import batches_of
from pyoco_server.recheck.records import Request

CHOSEN_MAX = 100_000
# Started before the answer; the rest follows behind it.
STARTED_AT_ONCE_MAX = 100
SIDE_BY_SIDE = 16

Chosen = list[tuple[str, str]]


class Sender(NamedTuple):
    """The sender of a request, and the trace that it belongs to."""

    caller: Caller
    correlation_id: str | None = None
    traceparent: str | None = None


async def accept(
    desk: RecheckContext,
    sender: Sender,
    asked: AskedRecheck,
    chosen: Chosen | Invalid,
    reservation: Reservation,
) -> Request:
    """Store the request and start its first batches. `chosen`: from `choose`."""
    request = await _store_request(desk, sender, asked, chosen, reservation)
    if not request.dry_run:
        await start_batches(desk, request, range(min(request.batches, STARTED_AT_ONCE_MAX)))
    return request


async def start_batches(desk: RecheckContext, request: Request, numbers: Iterable[int]) -> None:
    """Those that run already are left alone. The first trouble is raised, after all were tried."""
    plan = await plan_of(desk.store, request)
    places = asyncio.Semaphore(SIDE_BY_SIDE)

    async def start(number: int) -> None:
        async with places:
            await desk.executor.start(request, number, plan[number])

    starting = [start(number) for number in numbers if number < len(plan)]
    for end in await asyncio.gather(*starting, return_exceptions=True):
        if isinstance(end, BaseException):
            raise end


async def choose(
    desk: RecheckContext, caller: Caller, asked: AskedRecheck, key: IdempotencyKey, wanted: RequestDigest
) -> Chosen | Invalid:
    """What the catalogue refuses reserves nothing. But what was accepted once is answered so again: then the
    refusal is handed on, for the case that nothing came of it.
    """
    tenant, reading = tenant_of(caller), await desk.model.catch_up()
    try:
        if asked.chosen is not None:
            return _matching(reading, tenant, asked)
        return _named(reading, tenant, asked.strategies)
    except Invalid as refused:
        known = (await desk.store.ledger.get(key.address)).record
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


def _matching(reading: RecheckQueries, tenant: str, asked: AskedRecheck) -> Chosen:
    assert asked.chosen is not None
    wanted = asked.chosen
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
    desk: RecheckContext,
    sender: Sender,
    asked: AskedRecheck,
    chosen: Chosen | Invalid,
    reservation: Reservation,
) -> Request:
    tenant, request_id = tenant_of(sender.caller), reservation.resource_id
    if reservation.may_have_happened:
        earlier = await desk.store.rechecks.request(tenant, request_id)
        if earlier is not None:
            return earlier
    if isinstance(chosen, Invalid):
        raise chosen
    batches = batches_of(chosen, asked.batch_size)
    plan = {} if asked.dry_run else await put_plan(desk.store, request_id, batches)
    return await desk.store.rechecks.create_request(
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
