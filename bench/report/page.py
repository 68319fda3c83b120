"""`python -m bench page RESULTS.json …`: write stored results into the page of measurements.

It is docs/operations/measurements.md, with a chart.

Each block of the page is between two marks and is replaced by the last results of its kind that were given.
The text around the blocks is written by hand.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.peers.compare import by_process, rows_of
from bench.peers.figures import CPU, FIGURES, Figure, Rounds, cell
from bench.peers.systems import OURS
from bench.report.chart import Bar, Panel, chart
from bench.report.own_figures import own_table
from bench.report.tables import table

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = DOCS / "operations" / "measurements.md"
CHART = DOCS / "img" / "measurements.svg"

Results = Mapping[str, Any]


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench page", description=__doc__)
    parser.add_argument("results", nargs="+", type=Path)
    files = parser.parse_args(arguments).results
    found = {results["kind"]: results for results in (json.loads(file.read_text()) for file in files)}
    text = PAGE.read_text(encoding="utf-8")
    for name, content in blocks(found).items():
        text = replace_block(text, name, content)
    PAGE.write_text(text, encoding="utf-8")
    if peers := found.get("peers"):
        CHART.write_text(chart(panels(peers)), encoding="utf-8")


def blocks(found: Mapping[str, Results]) -> dict[str, str]:
    made = {}
    if peers := found.get("peers"):
        made["peers"] = f"{conditions(peers)}\n\n{peers_table(peers)}"
        made["driven"] = driven_table(peers)
        made["processes"] = by_process({OURS: peers["systems"][OURS]})
    if figures := found.get("figures"):
        made["figures"] = f"{conditions(figures)}\n\n{own_table(figures['benches'])}"
    return made


def replace_block(text: str, name: str, content: str) -> str:
    begin, end = f"<!-- begin: {name} -->", f"<!-- end: {name} -->"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"the page has no block {name}")
    return pattern.sub(lambda _: f"{begin}\n\n{content}\n\n{end}", text)


def conditions(results: Results) -> str:
    """Where and with what the figures were measured; `note` is added to a file of results by hand."""
    python = results["python"]
    machine = f"{results['cores']} cores, Python {python['version']} ({python['pgo']})"
    said = f"Measured on {results['at'].partition(' ')[0]} at commit {results['commit']}: {machine}."
    if "systems" in results:
        said += f"\n{_conditions_of_rounds(results)}"
    return f"{said}\n{results['note']}" if results.get("note") else said


def peers_table(results: Results) -> str:
    systems = _measured(results)
    heads = ["", *(one["title"] for one in systems.values())]
    rows = rows_of((*FIGURES, CPU[1]), systems)
    missing = [
        f"{one['title']} is missing: {one['unavailable']}."
        for one in results["systems"].values()
        if one.get("unavailable")
    ]
    return "\n\n".join([table(heads, rows), *missing])


def driven_table(results: Results) -> str:
    rows = [
        [one["title"], _in_words(one.get("versions", {})), one.get("driven", ""), one.get("durability", "")]
        for one in _measured(results).values()
    ]
    return table(["", "versions", "one run; submit, wait", "on disk"], rows)


def panels(results: Results) -> list[Panel]:
    systems = _measured(results)
    shown = [(figure, _bars(figure, systems)) for figure in FIGURES]
    return [
        Panel(figure.title, figure.unit, figure.better, bars)
        for figure, bars in shown
        if any(bar.value is not None for bar in bars)
    ]


def _bars(figure: Figure, systems: Mapping[str, Results]) -> list[Bar]:
    return [
        Bar(one["title"], figure.of(one["rounds"]), cell(figure, one["rounds"]), is_ours=name == OURS)
        for name, one in systems.items()
    ]


def _in_words(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _measured(results: Results) -> dict[str, Results]:
    return {name: one for name, one in results["systems"].items() if one["rounds"]}


def _conditions_of_rounds(results: Results) -> str:
    rounds: list[Rounds] = [one["rounds"] for one in results["systems"].values() if one["rounds"]]
    others = [
        measured["others_cores"]
        for each in rounds
        for one in each
        for measured in one.values()
        if isinstance(measured, dict) and "others_cores" in measured
    ]
    count = max(map(len, rounds))
    said = f"Medians of {count} rounds in turns." if count > 1 else "One round only."
    return f"{said} Other processes used up to {max(others):.1f} cores." if others else said
