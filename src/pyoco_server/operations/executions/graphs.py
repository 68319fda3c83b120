"""Register graphs, find them, list them. A version never changes; an equal graph gets no new version."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Sequence

import msgspec

from pyoco_server import canonical_json, clock
from pyoco_server.cursors import TokenRefused, seal, unseal
from pyoco_server.errors import Invalid, NotFound, TooLarge, Unavailable
from pyoco_server.jetstream.errors import WrongSequence
from pyoco_server.lifecycle.graph import Graph, GraphTask
from pyoco_server.operations.identity.callers import Caller
from pyoco_server.store.graphs import Head, StoredGraph
from pyoco_server.store.store import Store

# A graph and the largest parameters fit into one commit.
GRAPH_BYTES_MAX = 262_144
REGISTER_TRIES_MAX = 20
CURSOR = "graphs"


class GraphNotFound(NotFound):
    """There is no such graph, or no such version of it."""


async def register(
    store: Store, caller: Caller, graph_id: str, tasks: Sequence[GraphTask]
) -> tuple[StoredGraph, bool]:
    """The version with these tasks, and whether it is new."""
    digest, size = _digest_and_size(tasks)
    if size > GRAPH_BYTES_MAX:
        raise TooLarge(
            f"The graph has {size} bytes; at most {GRAPH_BYTES_MAX} are accepted. Shorten prompts."
        )
    tenant_id = caller.tenant_id
    for _ in range(REGISTER_TRIES_MAX):
        latest = await store.graphs.head(tenant_id, graph_id)
        if latest is not None and latest.head.digest == digest:
            if not await store.graphs.is_latest(tenant_id, latest):
                continue
            return await find(store, caller, graph_id, latest.head.version), False
        version = latest.head.version + 1 if latest else 1
        wanted = StoredGraph(
            graph=Graph(id=graph_id, version=version, nodes=tuple(tasks)),
            digest=digest,
            created_at=clock.now(),
            created_by=caller.principal,
        )
        revision = latest.revision if latest else 0
        if await _create(store, tenant_id, wanted, revision):
            return wanted, True
    raise Unavailable(f"Graph {graph_id} changes too fast to be changed. Try again.")


async def find(store: Store, caller: Caller, graph_id: str, version: int | None = None) -> StoredGraph:
    """This version; without a version the latest one."""
    if version is None:
        latest = await store.graphs.head(caller.tenant_id, graph_id)
        version = latest.head.version if latest else None
    found = None if version is None else await store.graphs.version(caller.tenant_id, graph_id, version)
    if found is None:
        which = "" if version is None else f" with a version {version}"
        raise GraphNotFound(f"There is no graph {graph_id}{which}. Register one with PUT /graphs/{graph_id}.")
    return found


async def page(
    store: Store, caller: Caller, *, limit: int, cursor: str | None
) -> tuple[list[Head], str | None]:
    """Heads in the order of their last change, and the cursor of the next page."""
    secret = await store.secrets.for_tokens()
    scope = {"tenant": caller.tenant_id}
    after = 0 if cursor is None else _place(secret, scope, cursor)
    placed = await store.graphs.heads(caller.tenant_id, after=after, limit=limit + 1)
    shown = placed[:limit]
    more = seal(secret, CURSOR, scope, [shown[-1].revision]) if len(placed) > limit else None
    return [one.head for one in shown], more


async def _create(store: Store, tenant_id: str | None, wanted: StoredGraph, revision: int) -> bool:
    """Store the graph and move the head to it.

    False: another caller stored this version first. The head moves to that one.
    """
    graph = wanted.graph
    try:
        await store.graphs.create(tenant_id, wanted)
        found: StoredGraph | None = wanted
    except WrongSequence:
        found = await store.graphs.version(tenant_id, graph.id, graph.version)
    if found is None:
        return False
    # Another caller may have found this version and moved the head already.
    with contextlib.suppress(WrongSequence):
        await store.graphs.point(tenant_id, _head(found), revision=revision)
    return found is wanted


def _head(stored: StoredGraph) -> Head:
    graph = stored.graph
    return Head(
        graph_id=graph.id,
        version=graph.version,
        digest=stored.digest,
        created_at=stored.created_at,
        tasks=len(graph.nodes),
    )


def _digest_and_size(tasks: Sequence[GraphTask]) -> tuple[str, int]:
    """The digest and the size in bytes of the canonical JSON: the order of members makes no difference."""
    canonical = canonical_json.canonical_bytes(msgspec.to_builtins(tasks))
    return f"sha256:{hashlib.sha256(canonical).hexdigest()}", len(canonical)


def _place(secret: bytes, scope: dict[str, str | None], cursor: str) -> int:
    try:
        return unseal(secret, CURSOR, scope, cursor)[0]
    except TokenRefused:
        message = "cursor is not one of this list: pass it on unchanged."
        raise Invalid.at(["query", "cursor"], message) from None
