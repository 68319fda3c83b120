"""The rows of the comparison: what is shown of the results, in which unit, and which way is better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.summaries import Better, ahead, median, short

MISSING = "–"

Rounds = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Figure:
    workload: str
    name: str
    title: str
    unit: str
    better: Better

    def of(self, rounds: Rounds) -> float | None:
        """The median of the rounds that have it."""
        return median([(results.get(self.workload) or {}).get(self.name) for results in rounds])


FIGURES = (
    Figure("w1", "p50_ms", "W1 idle latency, p50", "ms", Better.LESS),
    Figure("w2", "runs_per_sec", "W2 no-op runs", "runs/s", Better.MORE),
    Figure("w3", "tasks_per_sec", "W3 chains of 10", "tasks/s", Better.MORE),
    Figure("w4", "tasks_per_sec", "W4 fan-outs of 100", "tasks/s", Better.MORE),
    Figure("w5", "seconds", "W5 kill -9 to all done", "s", Better.LESS),
    Figure("start", "first_run_sec", "start to first run", "s", Better.LESS),
    Figure("memory", "pss_mb", "idle memory, 8 slots", "MB", Better.LESS),
    Figure("list", "p50_ms", "list of 50 of 20,000", "ms", Better.LESS),
)
CPU = tuple(
    Figure(workload, "cpu_ms", f"{workload.upper()} processor time", "ms/run", Better.LESS)
    for workload in ("w1", "w2", "w3", "w4")
)


def cell(figure: Figure, rounds: Rounds, ours: float | None = None) -> str:
    """The value; with `ours`, also how many times better ours is. Says what is missing, and what failed."""
    value = figure.of(rounds)
    if value is None:
        return _without_value(figure, rounds)
    text = short(value)
    if figure.workload == "list" and (stored := _least(rounds, "list", "stored")) < 20_000:
        text += f" at {stored:,}"
    factor = ahead(ours, value, figure.better)
    return f"{text} ({short(factor)}×)" if factor else text


def _without_value(figure: Figure, rounds: Rounds) -> str:
    found = [results[figure.workload] for results in rounds if results.get(figure.workload)]
    if any("error" in one for one in found):
        return "failed"
    if figure.workload == "w5" and found:
        lost = median([one["runs"] - one["completed"] for one in found]) or 0
        return f"{lost:.0f} of {found[0]['runs']} missing after {found[0]['waited_sec']:.0f} s"
    return MISSING


def _least(rounds: Rounds, workload: str, name: str) -> int:
    return min(int(results[workload][name]) for results in rounds if results.get(workload))
