"""The batches of a request: in it while they are few, in an object beside it when they are many."""

from __future__ import annotations

import msgspec

from pyoco_server.errors import NotFound
from pyoco_server.ids import new_token
from pyoco_server.recheck.batches import Batch
from pyoco_server.recheck.records import Request
from pyoco_server.store.store import Store

# A message holds many more; beyond this it is not one that anybody likes to look at.
INLINE_STRATEGIES_MAX = 1_000
# The objects of the latest large requests: each is asked for once a batch.
KEPT_MAX = 4

_decode = msgspec.json.Decoder(list[Batch]).decode
_kept: dict[str, list[Batch]] = {}


async def put_plan(store: Store, request_id: str, batches: list[Batch]) -> dict[str, object]:
    """The members of the request that say where its batches are. Two tries do not mix: each has its name."""
    if sum(len(batch.strategies) for batch in batches) <= INLINE_STRATEGIES_MAX:
        return {"plan": tuple(batches)}
    name = f"plans/{request_id}/{new_token()}"
    await store.artifacts.put(name, msgspec.json.encode(batches))
    return {"plan_object": name}


async def plan_of(store: Store, request: Request) -> list[Batch]:
    """Empty when it is not there any more."""
    if request.plan_object is None:
        return list(request.plan or ())
    plan = _kept.get(request.plan_object)
    if plan is None:
        try:
            plan = _decode(await store.artifacts.get(request.plan_object))
        except NotFound:
            return []
        while len(_kept) >= KEPT_MAX:
            del _kept[next(iter(_kept))]
        _kept[request.plan_object] = plan
    return plan
