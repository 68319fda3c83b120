"""Under which conditions results were measured: commit, time, cores, and the Python with its build."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PYTHON_FACTS = """
import json, platform, sysconfig, sys, time
def work():
    begun, found = time.perf_counter(), {}
    for number in range(300000):
        found[number % 1000] = str(number) + "x"
    return time.perf_counter() - begun
print(json.dumps({
    "version": platform.python_version(), "prefix": sys.base_prefix,
    "arguments": sysconfig.get_config_var("CONFIG_ARGS") or "",
    "sample_ms": min(work() for _ in range(7)) * 1000,
}))
"""


def conditions(python: str) -> dict[str, Any]:
    return {
        "commit": commit(),
        "at": time.strftime("%Y-%m-%d %H:%M"),
        "cores": os.cpu_count(),
        "python": describe_python(python),
    }


def describe_python(python: str) -> dict[str, Any]:
    """Version, whether it was built with profile-guided optimisation, and how long a fixed program takes."""
    done = subprocess.run([python, "-c", PYTHON_FACTS], capture_output=True, text=True, check=True)
    facts = json.loads(done.stdout)
    return {
        "version": facts["version"],
        "pgo": pgo(facts["arguments"], facts["prefix"]),
        "sample_ms": facts["sample_ms"],
    }


def pgo(configure_arguments: str, prefix: str) -> str:
    """Distributions pass it to make instead of configure, so their builds do not show it."""
    if "--enable-optimizations" in configure_arguments:
        return "with PGO"
    return "built by the distribution" if prefix == "/usr" else "without PGO"


def commit() -> str:
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"
