"""Statistics of measurements: percentiles, medians of rounds, and by how much one figure is ahead of another.

Uses the standard library only, see `bench.processes`.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from enum import StrEnum


class Better(StrEnum):
    MORE = "more"
    LESS = "less"


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def median(values: Sequence[float | None]) -> float | None:
    """Of the rounds that have a value; None if no round has one."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def ahead(ours: float | None, theirs: float | None, better: Better) -> float | None:
    """How many times better ours is; below 1 theirs is better."""
    if not ours or not theirs:
        return None
    return ours / theirs if better is Better.MORE else theirs / ours


def short(value: float) -> str:
    """Three digits are what a measurement is worth: `0.86`, `12.3`, `1,857`."""
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}"
