"""A store that takes its one broker for a cluster: its decisions on several copies are tested without one."""

from __future__ import annotations

from pyoco_server.store.resources import streams
from pyoco_server.store.store import Store


def with_copies(store: Store) -> None:
    """As on a cluster: the broker of these tests keeps one copy, and then a read is what there is."""
    store.jetstream.replicas = _ThreeCopies((one["name"], 3) for one in streams(store.config))


class _ThreeCopies(dict[str, int]):
    """Whatever the broker says."""

    def __setitem__(self, stream: str, _copies: int) -> None:
        super().__setitem__(stream, 3)
