"""Batches of a request: which strategies one run evaluates, and what that run is called.

A run's id follows from the request and the number of the batch, so whoever starts a batch a second time finds
it there.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable

import msgspec

BATCH_SIZE = 25

_NAMESPACE = uuid.UUID("5b0f4a6e-6f0b-5d3a-9d4e-8f0f5f6f2a51")


class Batch(msgspec.Struct, frozen=True, array_like=True):
    flow: str
    strategies: tuple[str, ...]


def batches_of(strategies: Iterable[tuple[str, str]], size: int) -> list[Batch]:
    """`strategies`: id and flow of each. A batch never mixes flows; flows come in order of first mention."""
    by_flow: dict[str, list[str]] = {}
    for strategy_id, flow in strategies:
        by_flow.setdefault(flow, []).append(strategy_id)
    return [
        Batch(flow, tuple(ids[start : start + size]))
        for flow, ids in by_flow.items()
        for start in range(0, len(ids), size)
    ]


def run_id_of(request_id: str, batch: int) -> str:
    return str(uuid.uuid5(_NAMESPACE, f"{request_id}/{batch}"))


def run_ids_of(request_id: str, batches: int) -> list[str]:
    return [run_id_of(request_id, batch) for batch in range(batches)]
