"""Answers about batches: many runs that were submitted in one request. Instants are unix seconds."""

from __future__ import annotations

from typing import TypedDict


class BatchItemAnswer(TypedDict, total=False):
    """What became of one item: a run, or why there is none."""

    index: int
    run_id: str
    status: str
    error: dict[str, object]


class SubmittedBatchAnswer(TypedDict, total=False):
    """`complete`: every item was accepted or refused. If not, `error` says why."""

    batch_id: str
    total: int
    accepted: int
    refused: int
    complete: bool
    error: dict[str, object]
    items: list[BatchItemAnswer]


class BatchAnswer(TypedDict, total=False):
    """A batch. `counts`: its runs by status; not in lists."""

    batch_id: str
    created_at: float
    total: int
    submitted_at: float | None
    accepted: int
    refused: int
    cancelled_at: float | None
    cancelled_by: str | None
    cancel_reason: str | None
    counts: dict[str, int]
    waiting: int
    is_over: bool
