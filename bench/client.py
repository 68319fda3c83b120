"""What a client sees: submit, execute and wait together, with eight connections that are kept.

Runs the workloads of `bench.peers` on this checkout, in this environment. Its figures therefore agree with
those of the comparison. Durability `interval` and `always` take turns.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.peers.compare import run_round
from bench.peers.figures import CPU, FIGURES
from bench.peers.install import default_cache
from bench.peers.systems import OURS
from bench.peers.workloads import Sizes, medians
from bench.summaries import median

ROUNDS = 2
SYSTEMS = {"interval": OURS, "always": "pyoco-always"}
ONLY = "w1,w2,w3,w4"


async def client_view(sizes: Sizes | None = None, *, rounds: int = ROUNDS) -> dict[str, float]:
    sizes = sizes or replace(Sizes(), repetitions=2, quiet_sec_max=2.0)
    found: dict[str, list[dict[str, Any]]] = {durability: [] for durability in SYSTEMS}
    for _ in range(rounds):
        for durability, name in SYSTEMS.items():
            results = await asyncio.to_thread(
                run_round, name, Path(sys.executable), ONLY, sizes, default_cache()
            )
            found[durability].append(results)
    figures: dict[str, float] = {}
    for durability, results_of_rounds in found.items():
        figures |= _shown(durability, results_of_rounds)
    always, interval = (figures.get(f"W2 no-op runs, runs/s, {mode}") for mode in ("always", "interval"))
    if always and interval:
        figures["W2, always in parts of interval"] = always / interval
    return figures | _by_process([results["w2"] for results in found["interval"] if "w2" in results])


def _shown(durability: str, rounds: list[dict[str, Any]]) -> dict[str, float]:
    values = {f"{figure.title}, {figure.unit}, {durability}": figure.of(rounds) for figure in FIGURES + CPU}
    others = median([(results.get("w2") or {}).get("others_cores") for results in rounds])
    values[f"cores of others in W2, {durability}"] = others
    return {name: value for name, value in values.items() if value is not None}


def _by_process(measured: list[dict[str, Any]]) -> dict[str, float]:
    names = {"cpu_us": "µs", "voluntary": "voluntary switches", "forced": "forced switches"}
    return {
        f"W2, {role}: {names[name]} a run": value
        for role, cost in medians(measured).get("roles", {}).items()
        for name, value in cost.items()
    }
