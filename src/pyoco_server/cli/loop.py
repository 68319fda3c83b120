"""The event loop of the programs: uvloop where it exists."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from typing import TypeVar

T = TypeVar("T")


def run_in_loop(main: Coroutine[object, object, T]) -> T:
    if sys.platform == "win32":
        return asyncio.run(main)

    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)
