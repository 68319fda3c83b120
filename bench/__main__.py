"""`python -m bench [submit] [latency] [lists] [up]`: all of them without a name."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable

import uvloop

from bench.lists import list_cost
from bench.start import up_to_first_run
from bench.submit import end_to_end, submit_rate

Figures = dict[str, float]

BENCHES: dict[str, list[tuple[str, Callable[[], Awaitable[Figures]]]]] = {
    "submit": [
        ("submit, durability interval", lambda: submit_rate("interval")),
        ("submit, durability always", lambda: submit_rate("always")),
    ],
    "latency": [
        ("end to end, durability interval", lambda: end_to_end("interval")),
        ("end to end, durability always", lambda: end_to_end("always")),
    ],
    "lists": [("lists at 1 000 and 200 000 runs", list_cost)],
    "up": [("up to first run", up_to_first_run)],
}


async def main(names: list[str]) -> None:
    for name in names or list(BENCHES):
        for title, bench in BENCHES[name]:
            print(f"\n## {title}")
            for what, figure in (await bench()).items():
                print(f"{what:<48} {figure:>12.2f}")


uvloop.run(main(sys.argv[1:]))
