"""Everything that `up` starts, with flows to watch, strategies to recheck and wheels to take."""

from __future__ import annotations

import os
from pathlib import Path

import httpx

from tests.cli.conftest import starter
from tests.cli.programs import Programs, Up, wait_for
from tests.dashboard.browser import ROOT


def everything(programs: Programs, flows: Path, strategies: str, *arguments: object, grace_sec: int) -> Up:
    """With a worker that is ready. `strategies`: the text of a catalogue."""
    catalogue = programs.folder / "strategies.yaml"
    catalogue.write_text(strategies)
    up = starter(programs)(
        *("--flow-resolver", f"{flows}:resolve", *arguments),
        PYOCO_CANCEL_GRACE_PERIOD_SEC=str(grace_sec),
        PYOCO_STRATEGIES_FILE=str(catalogue),
        PYOCO_WHEEL_SYNC_ENABLED="1",
        PYOCO_WHEEL_SYNC_DIR=str(programs.folder / "wheels"),
        PYOCO_WHEEL_SYNC_INTERVAL_SEC="1",
        PYTHONPATH=os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    )
    wait_for(lambda: _workers(up), "a worker")
    return up


def _workers(up: Up) -> object:
    assert up.program.process.poll() is None, up.program.errors
    return httpx.get(f"{up.url}/workers").json()
