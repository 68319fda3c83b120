"""`python -m bench [name …]` runs the named measurements; without a name, all except the long ones.

`python -m bench peers …` compares with other systems, `python -m bench page …` writes
docs/operations/measurements.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import uvloop

from bench.catalogue import BENCHES, LONG, Figures
from bench.conditions import conditions
from bench.peers import compare
from bench.report import page


async def main(names: Sequence[str], out: Path | None) -> None:
    known = BENCHES | LONG
    results = {"kind": "figures", **conditions(sys.executable)}
    measured: dict[str, Figures] = {}
    for name in names or list(BENCHES):
        for title, bench in known[name]:
            print(f"\n## {title}")
            measured[title] = await bench()
            for what, figure in measured[title].items():
                print(f"{what:<60} {figure:>12.2f}")
            if out:
                _store(out, {**results, "benches": measured})


def _store(path: Path, results: dict[str, object]) -> None:
    path.write_text(json.dumps(results, indent=1) + "\n")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of peers, page, {', '.join(BENCHES | LONG)}")
    parser.add_argument("--out", type=Path, help="file for the results, which `page` reads")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.names if name not in BENCHES | LONG]:
        parser.error(f"no such bench: {', '.join(unknown)}; there are {', '.join(BENCHES | LONG)}")
    return options


match sys.argv[1:]:
    case ["peers", *arguments]:
        compare.main(arguments)
    case ["page", *arguments]:
        page.main(arguments)
    case arguments:
        options = parse(arguments)
        uvloop.run(main(options.names, options.out))
