"""Settle a batch whose run has ended: judge its output, store its artifacts, then its outcome. Once.

The outcome is stored last, so that every listed artifact exists. A second try, also on another gateway, finds
the same objects and the outcome.
"""

from __future__ import annotations

import logging
import math
from hashlib import sha256

from msgspec.structs import replace

from pyoco_server.operations.rechecks.accept import plan_of
from pyoco_server.operations.rechecks.context import EndedBatch, NotEnded, RecheckContext
from pyoco_server.read_model.recheck_queries import RecheckQueries
from pyoco_server.read_model.rechecks import OpenBatch
from pyoco_server.recheck.judging import (
    ReturnedArtifact,
    artifacts_in,
    failed_result,
    judge,
    returned_by_strategy,
)
from pyoco_server.recheck.records import Artifact, BatchOutcome, Request, StrategyResult
from pyoco_server.store.store import Store

log = logging.getLogger(__name__)


async def settle(context: RecheckContext, run_id: str, batch: OpenBatch) -> NotEnded | None:
    """None if the batch is settled, or its request does not exist any more."""
    ended = await context.executor.read_end(run_id)
    if isinstance(ended, NotEnded):
        return ended
    reading = await context.model.catch_up()
    request = reading.request(batch.request_id)
    if request is None:
        return None
    plan = await plan_of(context.store, request)
    strategies = plan[batch.batch].strategies if batch.batch < len(plan) else ()
    outcome = BatchOutcome(
        request_id=batch.request_id,
        batch=batch.batch,
        completed_at=math.floor(ended.at * 1000) / 1000,
        results=tuple(await _results(context.store, reading, request, batch.batch, strategies, ended)),
    )
    ours = await context.store.rechecks.create_outcome(request.tenant, outcome)
    fields = {"request_id": request.request_id, "batch": batch.batch, "run_id": run_id, "stored_now": ours}
    log.info("recheck batch settled", extra=fields)
    return None


async def _results(
    store: Store,
    reading: RecheckQueries,
    request: Request,
    batch: int,
    strategies: tuple[str, ...],
    ended: EndedBatch,
) -> list[StrategyResult]:
    if ended.error is not None:
        return [failed_result(one, ended.error) for one in strategies]
    profiles = reading.profiles(request.tenant)
    returned = returned_by_strategy(ended.output, strategies)
    results = []
    for place, one in enumerate(strategies):
        profile = reading.profile_for(request.tenant, one, profiles)
        result = judge(one, returned.get(one), profile)
        where = f"results/{request.request_id}/{batch}/{place}"
        results.append(replace(result, artifacts=await _store_artifacts(store, where, returned.get(one))))
    return results


async def _store_artifacts(store: Store, where: str, returned: object) -> tuple[Artifact, ...]:
    attached = artifacts_in(returned)
    return tuple(
        [await _store_artifact(store, f"{where}/{number}", one) for number, one in enumerate(attached)]
    )


async def _store_artifact(store: Store, name: str, attached: ReturnedArtifact) -> Artifact:
    digest = sha256(attached.content).hexdigest()
    name = f"{name}/{digest}"  # with the digest: an object that an outcome refers to is never replaced
    await store.artifacts.create(name, attached.content, digest)
    return Artifact(
        kind=attached.kind,
        name=attached.name,
        content_type=attached.content_type,
        bytes_size=len(attached.content),
        object=name,
    )
