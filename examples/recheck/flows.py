"""A flow that evaluates strategies for a recheck, with prices that are generated from a fixed seed.

A real flow would load prices. Everything else is realistic: the flow gets the strategies of its batch, and
returns metrics, a chart and a table for each of them.
"""

from __future__ import annotations

import math
import random
from statistics import fmean, pstdev
from typing import Any

from pyoco import Flow, task

SEED = 20_250_824
DAYS = 500
DAYS_A_YEAR = 252
LOOKBACK = {"fast": 5, "slow": 20}


def resolve(flow_name: str) -> Flow:
    if flow_name != "pdca_recheck":
        raise KeyError(f"No flow {flow_name!r} here; there is pdca_recheck.")
    return pdca_recheck()


def pdca_recheck() -> Flow:
    @task
    def evaluate(strategies: list[str], window: dict[str, Any] | None = None) -> dict[str, Any]:
        days = (window or {}).get("lookback_days", DAYS_A_YEAR)
        return {strategy: evaluated(strategy, days) for strategy in strategies}

    flow: Flow = Flow("pdca_recheck") >> evaluate
    return flow


def evaluated(strategy: str, days: int) -> dict[str, Any]:
    family, instrument, speed = strategy.split(".")
    prices = prices_of(instrument)
    returns = returns_of(prices, positions(family, LOOKBACK[speed], prices))[-days:]
    equity = equity_of(returns)
    print(f"{strategy}: {len(returns)} days, ends at {equity[-1]:.4f}")
    return {
        "metrics": {"winrate": winrate(returns), "sharpe": sharpe(returns), "max_dd": max_drawdown(equity)},
        "artifacts": [
            _artifact("chart", f"{strategy}.svg", "image/svg+xml", chart(equity)),
            _artifact("csv", f"{strategy}.csv", "text/csv", table(equity)),
        ],
    }


def _artifact(kind: str, name: str, content_type: str, content: str) -> dict[str, str]:
    return {"kind": kind, "name": name, "content_type": content_type, "content": content}


def prices_of(instrument: str) -> list[float]:
    """The same for all strategies of an instrument, today and tomorrow: moods that last a few weeks."""
    chance = random.Random(f"{SEED} {instrument}")
    price, mood, prices = 100.0, 0.0, [100.0]
    for day in range(DAYS):
        if day % 25 == 0:
            mood = chance.gauss(0.0, 0.002)
        price *= math.exp(mood + chance.gauss(0.0, 0.004))
        prices.append(price)
    return prices


def positions(family: str, lookback: int, prices: list[float]) -> list[float]:
    """1 long, -1 short, 0 out: decided on the evening before each day."""
    held = []
    for day in range(1, len(prices)):
        past = prices[max(0, day - lookback) : day]
        above = past[-1] - fmean(past)
        match family:
            case "momentum":
                held.append(math.copysign(1.0, above) if len(past) == lookback else 0.0)
            case "meanrev":
                held.append(-math.copysign(1.0, above) if abs(above) > pstdev(past) else 0.0)
            case _:
                held.append(1.0 if past[-1] >= max(past) else -1.0 if past[-1] <= min(past) else 0.0)
    return held


def returns_of(prices: list[float], held: list[float]) -> list[float]:
    return [position * (prices[day + 1] / prices[day] - 1) for day, position in enumerate(held)]


def equity_of(returns: list[float]) -> list[float]:
    equity = [1.0]
    for one in returns:
        equity.append(equity[-1] * (1 + one))
    return equity


def winrate(returns: list[float]) -> float | None:
    traded = [one for one in returns if one]
    return sum(one > 0 for one in traded) / len(traded) if traded else None


def sharpe(returns: list[float]) -> float | None:
    """Annualised, without a riskless rate; nothing where nothing moved."""
    spread = pstdev(returns) if len(returns) > 1 else 0.0
    return fmean(returns) / spread * math.sqrt(DAYS_A_YEAR) if spread else None


def max_drawdown(equity: list[float]) -> float:
    worst, highest = 0.0, equity[0]
    for value in equity:
        highest = max(highest, value)
        worst = max(worst, 1 - value / highest)
    return worst


def chart(equity: list[float]) -> str:
    low, high = min(equity), max(equity)
    tall = (high - low) or 1.0
    points = " ".join(
        f"{400 * day / (len(equity) - 1):.1f},{100 - 100 * (value - low) / tall:.1f}"
        for day, value in enumerate(equity)
    )
    line = f'<polyline fill="none" stroke="#06c" points="{points}"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-4 -4 408 108">{line}</svg>'


def table(equity: list[float]) -> str:
    return "day,equity\n" + "".join(f"{day},{value:.6f}\n" for day, value in enumerate(equity))
