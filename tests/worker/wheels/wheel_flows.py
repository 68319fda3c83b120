"""Flows that need a package which only a wheel brings: it is imported when a flow is asked for."""

import importlib
import time
from pathlib import Path
from typing import Any

from pyoco.core.models import Flow, Task


def resolve(name: str) -> Flow:
    """`demo_pkg` tells which version of that package it has got, and where from."""
    module: Any = importlib.import_module(name)
    flow = Flow(name=name)
    flow.add_task(Task(name="only", func=lambda: [module.VERSION, str(Path(module.__file__).parent)]))
    return flow


def resolve_slowly(name: str) -> Flow:
    """`<module> <file>`: imports a second module of the package only when the file is there."""
    package, _, file = name.partition(" ")
    importlib.import_module(package)

    def only() -> Any:
        Path(f"{file}.began").touch()
        while not Path(file).exists():
            time.sleep(0.01)
        return importlib.import_module(f"{package}_late").VERSION

    flow = Flow(name=name)
    flow.add_task(Task(name="only", func=only))
    return flow
