"""The bucket of graphs: every version, written once, and for each graph a head with the latest version.

A version is stored before the head that names it, so a head may lag behind but is never ahead. Versions are
decided in `operations.executions.graphs`.
"""

from __future__ import annotations

import msgspec

from pyoco_server.config import NatsBackendConfig
from pyoco_server.jetstream.api import JetStream
from pyoco_server.jetstream.kv import Bucket
from pyoco_server.lifecycle.graph import Graph

# No tenant can have this name.
NO_TENANT = "="


class StoredGraph(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    graph: Graph
    digest: str
    created_at: float
    created_by: str | None = None


class Head(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The latest version of a graph, as lists show it."""

    graph_id: str
    version: int
    digest: str
    created_at: float
    tasks: int


class PlacedHead(msgspec.Struct, frozen=True):
    head: Head
    revision: int


_encode = msgspec.json.Encoder().encode
_decode_graph = msgspec.json.Decoder(StoredGraph).decode
_decode_head = msgspec.json.Decoder(Head).decode


class Graphs:
    def __init__(self, jetstream: JetStream, config: NatsBackendConfig) -> None:
        self._bucket = Bucket(jetstream, config.graphs_kv_bucket)

    async def head(self, tenant_id: str | None, graph_id: str) -> PlacedHead | None:
        """None is confirmed by a majority. To decide nothing because of a head, call `is_latest` first."""
        entry = await self._bucket.get_confirmed(_head_key(tenant_id, graph_id))
        return PlacedHead(_decode_head(entry.value), entry.revision) if entry.value else None

    async def is_latest(self, tenant_id: str | None, placed: PlacedHead) -> bool:
        """Whether no other version was registered since, confirmed by a majority."""
        return await self._bucket.is_latest(_head_key(tenant_id, placed.head.graph_id), placed.revision)

    async def version(self, tenant_id: str | None, graph_id: str, version: int) -> StoredGraph | None:
        """Versions never change: only a missing one must be confirmed."""
        key = _version_key(tenant_id, graph_id, version)
        entry = await self._bucket.get(key)
        if not entry.value:
            entry = await self._bucket.get_confirmed(key)
        return _decode_graph(entry.value) if entry.value else None

    async def create(self, tenant_id: str | None, stored: StoredGraph) -> None:
        """Raises WrongSequence if the version exists."""
        key = _version_key(tenant_id, stored.graph.id, stored.graph.version)
        await self._bucket.put(key, _encode(stored), revision=0)

    async def point(self, tenant_id: str | None, head: Head, *, revision: int) -> None:
        """Set the head. Raises WrongSequence if another process has changed it."""
        await self._bucket.put(_head_key(tenant_id, head.graph_id), _encode(head), revision=revision)

    async def heads(self, tenant_id: str | None, *, after: int, limit: int) -> list[PlacedHead]:
        """Heads that were changed after this revision of the bucket, in the order of their last change."""
        messages = await self._bucket.page(f"head.{_token(tenant_id)}.*", limit, after)
        return [PlacedHead(_decode_head(one.data), one.seq) for one in messages if one.data]


def _head_key(tenant_id: str | None, graph_id: str) -> str:
    return f"head.{_token(tenant_id)}.{_token(graph_id)}"


def _version_key(tenant_id: str | None, graph_id: str, version: int) -> str:
    return f"version.{_token(tenant_id)}.{_token(graph_id)}.{version}"


def _token(name: str | None) -> str:
    """One token of a key: a dot separates tokens. Names have no `=`, and keys may."""
    return NO_TENANT if name is None else name.replace(".", "=2E")
