"""One round of one system, run by the Python of that system's environment:

python -m bench.peers.drive <system> <file for the results> <workloads> <sizes as JSON> <folder of npm>
"""

from __future__ import annotations

import json
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.peers.system import System
from bench.peers.systems import SYSTEMS
from bench.peers.workloads import WORKLOADS, Sizes

NEEDED = "start"


def run_round(system: System, wanted: Iterable[str], sizes: Sizes) -> dict[str, Any]:
    """A workload that fails leaves its error; the others are measured. Without a start nothing is."""
    results: dict[str, Any] = {}
    for name in [name for name in WORKLOADS if name in {NEEDED, *wanted}]:
        print(f"  {system.title}: {name}", file=sys.stderr, flush=True)
        try:
            results[name] = WORKLOADS[name](system, sizes)
        except Exception as error:  # a client library may raise anything
            traceback.print_exc()
            results[name] = {"error": f"{type(error).__name__}: {error}"}
            if name == NEEDED:
                break
    return results


def main(name: str, out: str, wanted: str, sizes_json: str, npm_folder: str) -> None:
    # A stop from outside must reach `finally`, or the services would stay.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    kind = SYSTEMS[name]
    sizes = Sizes(**json.loads(sizes_json)).scaled(kind.share)
    with tempfile.TemporaryDirectory(prefix=f"pyoco-bench-{name}-", ignore_cleanup_errors=True) as folder:
        system = kind(Path(folder), Path(npm_folder))
        try:
            results = run_round(system, wanted.split(","), sizes)
        finally:
            system.stop()
    Path(out).write_text(json.dumps(results | {"sizes": asdict(sizes)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
