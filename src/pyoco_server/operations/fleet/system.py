"""How the broker stands, for whoever keeps it: streams and buckets with their sizes against their limits."""

from __future__ import annotations

from typing import Any

from pyoco_server.jetstream.api import NANOSECONDS
from pyoco_server.store.store import Store

# What `max_bytes` or `max_msgs` say where there is no limit.
_NO_LIMIT = (None, 0, -1)


async def system(store: Store) -> dict[str, Any]:
    """Raises Unavailable when the broker is away."""
    streams = await store.streams()
    return {
        "broker_version": store.broker_version,
        # Of the event log, as it is.
        "replicas": streams[store.config.events_stream]["config"].get("num_replicas", 1),
        "reconnects": store.reconnects,
        "streams": [_stream(one) for one in streams.values()],
    }


def _stream(info: dict[str, Any]) -> dict[str, Any]:
    config, state = info["config"], info["state"]
    return {
        "name": config["name"],
        "messages": state["messages"],
        "bytes": state["bytes"],
        "bytes_max": _limit(config.get("max_bytes")),
        "messages_max": _limit(config.get("max_msgs")),
        "age_max_sec": (config.get("max_age") or 0) / NANOSECONDS or None,
        "last_seq": state["last_seq"],
        "consumers": state.get("consumer_count", 0),
    }


def _limit(said: int | None) -> int | None:
    return None if said in _NO_LIMIT else said
