"""The chores of a housekeeper, done one after the other and isolated from each other.

A chore that raises or takes too long is counted and the next one begins. One that fails several rounds in a
row is reported: in the log, in the lease of the housekeeper, and in `/ready`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from pyoco_server.errors import PyocoError
from pyoco_server.supervision import capture_error, count_failure

log = logging.getLogger(__name__)

# Fewer failed rounds in a row may be a short outage of the broker.
FAILING_AFTER_ROUNDS = 3
CHORE_SEC_MAX = 30.0
LIST_OF_RUNS = "list of runs"


class Chore(NamedTuple):
    name: str
    do: Callable[[], Awaitable[object]]
    # The chore uses the list of runs, so it is skipped while the list is not current.
    needs_list: bool = True


class _Failure(NamedTuple):
    rounds: int
    error: str


class Chores:
    def __init__(self, chores: Sequence[Chore], list_is_current: Callable[[], Awaitable[object]]) -> None:
        self._chores = chores
        self._list_is_current = Chore(LIST_OF_RUNS, list_is_current)
        self._failures: dict[str, _Failure] = {}

    async def do_all(self, may_go_on: Callable[[], bool]) -> None:
        is_current = await self.do(self._list_is_current)
        for chore in self._chores:
            if not may_go_on():
                return
            if is_current or not chore.needs_list:
                await self.do(chore)

    async def do(self, chore: Chore) -> bool:
        """Execute one chore, in a round or between rounds. False: it failed, and the failure is counted."""
        with capture_error() as step:
            async with asyncio.timeout(CHORE_SEC_MAX):
                await chore.do()
        if step.error is None:
            self._note_success(chore.name)
        else:
            self._note_failure(chore.name, step.error)
        return step.error is None

    def failing(self) -> list[str]:
        """Names of the chores that failed in several rounds in a row."""
        return [name for name, failure in self._failures.items() if failure.rounds >= FAILING_AFTER_ROUNDS]

    def describe_failing(self) -> str:
        return "; ".join(f"{name} ({self._failures[name].error})" for name in self.failing())

    def forget_failures(self) -> None:
        self._failures.clear()

    def _note_failure(self, name: str, error: Exception) -> None:
        count_failure(f"housekeeping.{name}")
        if not isinstance(error, PyocoError | TimeoutError):
            log.error("a chore failed", exc_info=error, extra={"chore": name})
        rounds = self._failures[name].rounds + 1 if name in self._failures else 1
        self._failures[name] = _Failure(rounds, _public_text(error))
        level = logging.WARNING if rounds == FAILING_AFTER_ROUNDS else logging.DEBUG
        text = error.message if isinstance(error, PyocoError) else _public_text(error)
        log.log(level, "a chore cannot be done", extra={"chore": name, "rounds": rounds, "error": text})

    def _note_success(self, name: str) -> None:
        failure = self._failures.pop(name, None)
        if failure is not None and failure.rounds >= FAILING_AFTER_ROUNDS:
            log.info("a chore is done again", extra={"chore": name, "rounds": failure.rounds})


def _public_text(error: Exception) -> str:
    match error:
        case PyocoError():
            return error.public_message
        case TimeoutError():
            return f"not done within {CHORE_SEC_MAX:g} s"
    return type(error).__name__
