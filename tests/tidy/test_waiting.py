"""Tests wait for signals or conditions with a deadline, never on time."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.repository import TESTS, dotted, expect_none, named, parsed, python_files

SLEEP_BELOW_SEC = 0.2
SLEEPS = {"time.sleep", "asyncio.sleep", "sleep"}

# On the line itself or the one above: says what a long sleep is for, as in user code that must be stopped.
EXCUSE = "# waits:"


def test_no_test_sleeps_without_saying_why() -> None:
    expect_none(place for path in python_files(TESTS) for place in long_sleeps(path))


def long_sleeps(path: Path) -> Iterator[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Call) and dotted(node.func) in SLEEPS and _seconds(node) >= SLEEP_BELOW_SEC:
            around = lines[max(node.lineno - 2, 0) : node.lineno]
            if not any(EXCUSE in line for line in around):
                place = f"{named(path)}:{node.lineno} sleeps {_seconds(node)} s"
                yield f"{place}; wait for a condition, or say `{EXCUSE} …`"


def _seconds(call: ast.Call) -> float:
    match call.args:
        case [ast.Constant(value=int() | float() as seconds), *_]:
            return float(seconds)
    return 0.0
