"""`make bench ARGS="peers …"`: install the systems, run rounds in turn, print and store what was measured."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from bench.conditions import conditions
from bench.peers.figures import CPU, FIGURES, MISSING, Figure, cell
from bench.peers.install import NotInstallable, default_cache, install, versions
from bench.peers.system import ROOT
from bench.peers.systems import OURS, SYSTEMS, USUAL
from bench.peers.workloads import SMALL, WORKLOADS, Sizes, medians
from bench.report.tables import table

ROUNDS = 3
ROUND_SEC_MAX = 1800.0

Results = dict[str, Any]


def main(arguments: Sequence[str]) -> None:
    options = parse(arguments)
    cache: Path = options.cache
    results: Results = {"kind": "peers", **conditions(options.python), "systems": {}}
    print(f"Python {_in_words(results['python'])}, {results['cores']} cores, commit {results['commit']}")
    pythons = _install(options, results["systems"])
    sizes = replace(SMALL if options.small else Sizes(), **_given(options))
    for number in range(options.rounds):
        for name, python in pythons.items():
            print(f"round {number + 1} of {options.rounds}: {name}", file=sys.stderr, flush=True)
            found = run_round(name, python, options.only, sizes, cache)
            results["systems"][name]["rounds"].append(found)
            _store(options.out, results)
    print(show(results))
    print(f"\nThe results are in {options.out}.")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench peers", description=__doc__)
    parser.add_argument("systems", nargs="*", help=f"of {', '.join(SYSTEMS)}")
    parser.add_argument("--only", default=",".join(WORKLOADS), help="workloads, such as w2,w3")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of all systems in turn")
    parser.add_argument("--repetitions", type=int, help="of each workload in a round")
    parser.add_argument("--python", default=sys.executable, help="for all systems, such as /usr/bin/python3")
    parser.add_argument("--small", action="store_true", help="few runs: shows that everything works")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="for the environments")
    parser.add_argument("--out", type=Path, help="file for the results; in the cache if missing")
    options = parser.parse_args(arguments)
    options.out = options.out or options.cache / "peers.json"
    if unknown := set(options.systems) - set(SYSTEMS):
        parser.error(f"no such system: {', '.join(unknown)}; there are {', '.join(SYSTEMS)}")
    if unknown := set(options.only.split(",")) - set(WORKLOADS):
        parser.error(f"no such workload: {', '.join(unknown)}; there are {', '.join(WORKLOADS)}")
    return options


def run_round(name: str, python: Path, only: str, sizes: Sizes, cache: Path) -> Results:
    """In a process of its own: the client library of the system is in its environment only."""
    with tempfile.TemporaryDirectory(prefix="pyoco-bench-") as folder:
        out = Path(folder) / "results.json"
        command = [
            python,
            "-m",
            "bench.peers.drive",
            name,
            out,
            only,
            json.dumps(asdict(sizes)),
            cache / "npm",
        ]
        env = os.environ | {"PYTHONPATH": str(ROOT)}
        try:
            subprocess.run([str(word) for word in command], env=env, check=True, timeout=ROUND_SEC_MAX)
        except subprocess.SubprocessError as error:
            return {"start": {"error": str(error)}}
        found: Results = json.loads(out.read_text())
        return found


def show(results: Mapping[str, Any]) -> str:
    """The table of medians with ratios, what could not be installed, and the costs by process."""
    systems = {name: one for name, one in results["systems"].items() if one["rounds"]}
    heads = ["", *(SYSTEMS[name].title for name in systems)]
    rows = rows_of(FIGURES + CPU, systems)
    rows.append(["cores of others, W2", *(_others(one["rounds"]) for one in systems.values())])
    missing = [
        f"{name}: {one['unavailable']}" for name, one in results["systems"].items() if one.get("unavailable")
    ]
    failed = [
        f"{name}, {workload}: {found['error']}"
        for name, one in systems.items()
        for results in one["rounds"]
        for workload, found in results.items()
        if isinstance(found, dict) and "error" in found
    ]
    parts = [table(heads, rows), *missing, *failed, by_process(systems)]
    return "\n\n".join(part for part in parts if part)


def rows_of(figures: Sequence[Figure], systems: Mapping[str, Any]) -> list[list[str]]:
    """One row for each figure that was measured."""
    rows = []
    for figure in figures:
        ours = figure.of(systems[OURS]["rounds"]) if OURS in systems else None
        cells = [cell(figure, one["rounds"], None if name == OURS else ours) for name, one in systems.items()]
        if set(cells) - {MISSING}:
            rows.append([f"{figure.title}, {figure.unit}", *cells])
    return rows


def by_process(systems: Mapping[str, Any]) -> str:
    """Processor time and context switches of one run in W2 and W3, by process."""
    rows = []
    for name, one in systems.items():
        for workload in ("w2", "w3", "w4"):
            measured = _having("roles", workload, one["rounds"])
            for role, cost in medians(measured).get("roles", {}).items():
                numbers = (f"{cost['cpu_us']:,.0f}", f"{cost['voluntary']:.1f}", f"{cost['forced']:.1f}")
                rows.append([SYSTEMS[name].title, workload.upper(), role, *numbers])
    heads = ["", "", "process", "processor µs/run", "voluntary switches/run", "forced switches/run"]
    return table(heads, rows) if rows else ""


def _install(options: argparse.Namespace, systems: Results) -> dict[str, Path]:
    pythons = {}
    for name in dict.fromkeys([OURS, *(options.systems or USUAL)]):
        print(f"installing {name}", file=sys.stderr, flush=True)
        system = SYSTEMS[name]
        systems[name] = {"title": system.title, "driven": system.driven, "durability": system.durability}
        systems[name]["rounds"] = []
        try:
            pythons[name] = install(name, system, options.python, options.cache)
            systems[name]["versions"] = versions(pythons[name], system, options.cache)
        except NotInstallable as reason:
            systems[name]["unavailable"] = str(reason)
            print(f"{name} is left out: {reason}", file=sys.stderr)
    return pythons


def _others(rounds: Sequence[Mapping[str, Any]]) -> str:
    found = [results["others_cores"] for results in _having("others_cores", "w2", rounds)]
    return f"{max(found):.2f}" if found else MISSING


def _having(name: str, workload: str, rounds: Sequence[Mapping[str, Any]]) -> list[Results]:
    """The results of a workload in the rounds that have this figure."""
    found = [results.get(workload) or {} for results in rounds]
    return [results for results in found if name in results]


def _given(options: argparse.Namespace) -> dict[str, int]:
    return {"repetitions": options.repetitions} if options.repetitions else {}


def _store(path: Path, results: Results) -> None:
    path.write_text(json.dumps(results, indent=1) + "\n")


def _in_words(python: Mapping[str, Any]) -> str:
    return f"{python['version']} {python['pgo']} ({python['sample_ms']:.0f} ms for a fixed program)"
