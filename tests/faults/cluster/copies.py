"""A store that takes its one broker for a cluster: its decisions on several copies are tested without one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyoco_server.jetstream.api import StoredMessage
from pyoco_server.store.resources import streams
from pyoco_server.store.store import Store


def with_copies(store: Store) -> None:
    """As on a cluster: the broker of these tests keeps one copy, and then a read is what there is."""
    store.jetstream.replicas = _ThreeCopies((one["name"], 3) for one in streams(store.config))


class _ThreeCopies(dict[str, int]):
    """Whatever the broker says."""

    def __setitem__(self, stream: str, _copies: int) -> None:
        super().__setitem__(stream, 3)


async def show_as_of_now(store: Store) -> None:
    """From now on its reads of streams are answered by a node that was cut off: without what came after.

    Writes go through, as right after the node is back. For streams that keep every message.
    """
    jetstream = store.jetstream
    ends = {one["name"]: await jetstream.last_seq(one["name"]) for one in streams(store.config)}
    at_leader = jetstream._at_leader

    async def old(stream: str, ask: Mapping[str, Any]) -> StoredMessage | None:
        found = await at_leader(stream, ask)
        if found is None or found.seq <= ends[stream]:
            return found
        if "last_by_subj" not in ask:
            return None
        before = await jetstream.after_at_leader(stream, ask["last_by_subj"], 0)
        return before[-1] if before else None

    jetstream._at_leader = old  # type: ignore[method-assign]
    jetstream.last = jetstream.last_at_leader  # type: ignore[method-assign]
    jetstream.after = jetstream.after_at_leader  # type: ignore[method-assign]
