"""Functions that a workflow may name, and what stands beside them and must stay closed."""

from __future__ import annotations

import os
import os as whole_module
from functools import partial
from os import system
from pathlib import Path
from typing import Any

from pyoco import task

shell = partial(os.system, "true")
PATH_CLASS = Path
NUMBER = 7
__all__ = ["system", "whole_module"]


def numbers(count: int) -> list[int]:
    return list(range(1, count + 1))


def square(ctx: Any) -> int:
    return int(ctx.loop.item) ** 2


def add(left: int, right: int) -> int:
    return left + right


def keep(ctx: Any, value: Any) -> Any:
    ctx.params.setdefault("kept", []).append(value)
    return list(ctx.params["kept"])


def say(word: str = "nothing") -> str:
    return f"said {word}"


@task
def wrapped() -> str:
    return "of a wrapper"


def die_the_first_time(marks: str) -> str:
    """Ends its process once; the second attempt finds the mark."""
    if not Path(marks).exists():
        Path(marks).touch()
        os._exit(3)
    return "alive"
