"""The state of the broker for operators: streams and buckets with their sizes and limits."""

from __future__ import annotations

from pyoco_server.jetstream.api import NANOSECONDS
from pyoco_server.jetstream.descriptions import StreamInfo
from pyoco_server.store.store import Store

# Values of `max_bytes` and `max_msgs` that mean no limit.
_NO_LIMIT = (None, 0, -1)


async def system(store: Store) -> dict[str, object]:
    """Raises Unavailable when the broker is away."""
    streams = await store.streams()
    return {
        "broker_version": store.broker_version,
        # The actual number of replicas of the event log.
        "replicas": streams[store.config.events_stream].config.get("num_replicas", 1),
        "reconnects": store.reconnects,
        "streams": [_stream(one) for one in streams.values()],
    }


def _stream(info: StreamInfo) -> dict[str, object]:
    config, state = info.config, info.state
    return {
        "name": config["name"],
        "messages": state.messages,
        "bytes": state.bytes,
        "bytes_max": _limit(config.get("max_bytes")),
        "messages_max": _limit(config.get("max_msgs")),
        "age_max_sec": (config.get("max_age") or 0) / NANOSECONDS or None,
        "last_seq": state.last_seq,
        "consumers": state.consumer_count,
    }


def _limit(value: int | None) -> int | None:
    return None if value in _NO_LIMIT else value
